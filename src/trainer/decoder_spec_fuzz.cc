// Any bytes as a config.json: what is accepted has sizes that can be worked with.
#include "base/check.h"
#include "trainer/decoder_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cairn::trainer;
  auto spec = parse_decoder_spec({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!spec) return 0;
  CAIRN_CHECK(spec->vocab_size > 0 && spec->hidden_size > 0 && spec->intermediate_size > 0 && spec->num_layers > 0);
  CAIRN_CHECK(spec->num_heads % spec->num_kv_heads == 0 && spec->head_dim > 0 && spec->head_dim % 2 == 0);
  CAIRN_CHECK(spec->rope_theta >= 1 && spec->rms_norm_eps > 0 && spec->initializer_range >= 0);
  for (int64_t id : spec->eos_token_ids) CAIRN_CHECK(id >= 0 && id < spec->vocab_size);
  CAIRN_CHECK(parameter_count(*spec) > 0 && flops_per_token(*spec, 1) > 0);
  return 0;
}
