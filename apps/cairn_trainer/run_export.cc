#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "cairn_trainer/subcommands.h"
#include "trainer/hf_export.h"
#include "trainer/runtime.h"

namespace cairn::apps {
namespace {

int usage(const char* text) {
  std::fprintf(stderr, "usage: cairn-trainer %s\n", text);
  return exit_code(Code::kUsage);
}

}  // namespace

int run_export(int argc, char** argv) {
  constexpr const char* kUsage = "export CHECKPOINT_DIR OUT_DIR [--dtype bf16|f32]";
  bool bfloat16 = true;
  std::vector<std::string> folders;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--dtype" && i + 1 < argc) {
      std::string_view type = argv[++i];
      if (type != "bf16" && type != "f32") return usage(kUsage);
      bfloat16 = type == "bf16";
    } else if (word.starts_with("-")) {
      return usage(kUsage);
    } else {
      folders.emplace_back(word);
    }
  }
  if (folders.size() != 2) return usage(kUsage);
  trainer::set_up_runtime({});
  auto step = trainer::export_checkpoint(folders[0], folders[1], bfloat16);
  if (!step) return report(step.error());
  std::printf("exported step %lld to %s\n", static_cast<long long>(*step), folders[1].c_str());
  return 0;
}

int run_import(int argc, char** argv) {
  if (argc != 3 || argv[1][0] == '-' || argv[2][0] == '-') return usage("import HF_DIR STEP_DIR");
  trainer::set_up_runtime({});
  Status imported = trainer::import_model(argv[1], argv[2]);
  if (!imported) return report(imported.error());
  std::printf("imported %s as %s\n", argv[1], argv[2]);
  return 0;
}

}  // namespace cairn::apps
