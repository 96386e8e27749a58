#include "agent/sandbox_plan.h"


#include <fmt/format.h>

#include "agent/node_facts.h"
#include "base/check.h"
#include "base/gpu_wish.h"
#include "os/file_system.h"
#include "os/host.h"

namespace cairn::agent {
namespace {

constexpr char kSystemPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

os::ByteView bytes_of(const std::string& text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

// A file whole, in place of what is there.
Status put_file(const os::Directory& dir, const std::string& relative, const std::string& text, uint32_t mode) {
  CAIRN_CHECK_OK(dir.remove_tree(relative));
  CAIRN_TRY(os::Fd fd, dir.create_file(relative, mode));
  return os::write_all(fd.get(), bytes_of(text), relative);
}

// A virtual environment is three files and two links; pip comes when it is first called, so that a run that needs none does not
// wait for it.
Status make_home(const std::string& journal_dir) {
  CAIRN_TRY(os::Directory top, os::Directory::open(journal_dir));
  CAIRN_TRY(os::Directory home, top.make_directories("home", 0755));
  CAIRN_TRY(os::Directory bin, home.make_directories("venv/bin", 0755));
  std::string python;
  for (const char* candidate : {"/usr/local/bin/python3", "/usr/bin/python3"}) {
    auto there = os::posix_file_system().exists(candidate);
    if (there && *there && python.empty()) python = candidate;
  }
  if (python.empty()) return ok();  // then the folder only comes first in PATH
  CAIRN_CHECK_OK(put_file(home, "venv/pyvenv.cfg",
                          fmt::format("home = {}\ninclude-system-site-packages = true\n", os::parent_path(python)), 0644));
  for (const char* name : {"python3", "python"}) {
    CAIRN_CHECK_OK(bin.remove_tree(name));
    CAIRN_CHECK_OK(bin.create_symlink(python, name));
  }
  const std::string pip =
      "#!/bin/sh\n"
      "# pip of this run's virtual environment; it is unpacked when it is first used.\n"
      "{\n"
      "  python=" + std::string(kHome) + "/venv/bin/python3\n"
      "  \"$python\" -m pip --version >/dev/null 2>&1 || \"$python\" -m ensurepip >/dev/null || exit 1\n"
      "  exec \"$python\" -m pip \"$@\"\n"
      "}\n";
  CAIRN_CHECK_OK(put_file(home, "venv/bin/pip", pip, 0755));
  return put_file(home, "venv/bin/pip3", pip, 0755);
}

Status make_folders(const std::string& journal_dir) {
  CAIRN_TRY(os::Directory top, os::Directory::open(journal_dir));
  CAIRN_TRY(os::Directory root, top.make_directories("root", 0755));
  CAIRN_TRY(os::Directory tmp, top.make_directories("tmp", 0755));
  CAIRN_CHECK_OK(top.set_mode("tmp", 01777));
  CAIRN_TRY(os::Directory workspace, top.make_directories("workspace", 0755));
  CAIRN_TRY([[maybe_unused]] os::Directory mnt, root.make_directories("mnt", 0755));
  CAIRN_TRY(os::Directory var, root.make_directories("var", 0755));
  CAIRN_CHECK_OK(var.remove_tree("tmp"));
  CAIRN_CHECK_OK(var.create_symlink("../tmp", "tmp"));
  return make_home(journal_dir);
}

std::string command_text(const api::AttemptStart& start) {
  std::string text;
  for (const std::string& word : start.command) text += word + "\n";
  return text;
}

}  // namespace

Status check_trainer(const api::AttemptStart& start, const ExecutorSettings& settings) {
  bool wanted = start.kind == api::RunKind::kTrain && !start.command.empty() && start.command[0] == kTrainerName;
  if (!wanted || !settings.trainer_program.empty()) return ok();
  return Error(Code::kFileNotFound, fmt::format("node {} has no {}, the built-in engine's program", os::host_name(), kTrainerName),
               "install it on the node in the folder of cairn, or choose another node with --node");
}

Result<GrantedGpus> take_gpus(const std::string& wish, const std::string& locks_dir) {
  GrantedGpus granted;
  CAIRN_TRY(GpuWish wanted, parse_gpu(wish));
  if (wanted.count == 0) return granted;
  auto count = static_cast<size_t>(wanted.count);
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(locks_dir, 0700));
  size_t fitting = 0;
  for (const Gpu& gpu : find_gpus()) {
    if (!wanted.type.empty() && gpu.name != wanted.type) continue;
    ++fitting;
    if (granted.indexes.size() == count) continue;
    auto lock = os::LockFile::try_lock(fmt::format("{}/gpu{}", locks_dir, gpu.index), "cairn agent exec");
    if (!lock) continue;
    granted.indexes.push_back(gpu.index);
    granted.locks.push_back(*std::move(lock));
  }
  if (granted.indexes.size() < count) {
    return Error(Code::kGpuTypeUnavailable,
                 fmt::format("{} GPUs{} were asked for; this node has {}, of which {} are free", count,
                             wanted.type.empty() ? "" : " of type " + wanted.type, fitting, granted.indexes.size()));
  }
  return granted;
}

OutputPlace output_place(const Journal& journal, const AttemptMounts& mounts, const std::string& outputs_dir) {
  const api::AttemptStart& start = *journal.start();
  OutputPlace place;
  if (const AttemptMount* primary = mounts.primary()) {
    place.host_dir = primary->merged + "/" + start.output_directory;
    place.inside = "/volume/" + start.output_directory;
  } else {
    place.host_dir = outputs_dir + "/" + start.run.hex();
    place.inside = "/output";
  }
  return place;
}

Result<os::Directory> open_outputs(const Journal& journal, const AttemptMounts& mounts, const std::string& outputs_dir) {
  const api::AttemptStart& start = *journal.start();
  std::string top_path = outputs_dir;
  std::string relative = start.run.hex();
  if (const AttemptMount* primary = mounts.primary()) {
    top_path = primary->merged;
    relative = start.output_directory;
  } else {
    CAIRN_CHECK_OK(os::posix_file_system().make_directories(outputs_dir, 0700));
  }
  if (!os::is_relative_path(relative)) return Error(Code::kPathInvalid, "the run's output folder has no valid name");
  CAIRN_TRY(os::Directory top, os::Directory::open(top_path));
  auto made = top.make_directories(relative, 0755);
  if (made || mounts.primary() == nullptr) return made;
  std::string first = relative.substr(0, relative.find('/'));
  auto there = top.stat(first);
  if (!there || there->type == os::FileType::kDirectory) return made;
  const std::string& volume = mounts.primary()->grant.volume;
  return Error(Code::kPathTypeConflict,
               fmt::format("'{}' on volume '{}' is no folder, and runs keep their outputs below it", first, volume),
               fmt::format("remove it with: cairn volumes rm {} {}", volume, first));
}

Result<OutputPlace> make_outputs(const Journal& journal, const AttemptMounts& mounts, const std::string& outputs_dir) {
  const api::AttemptStart& start = *journal.start();
  CAIRN_TRY(os::Directory output, open_outputs(journal, mounts, outputs_dir));
  CAIRN_TRY([[maybe_unused]] os::Directory logs, output.make_directories("logs", 0755));
  CAIRN_TRY(os::Directory configs, output.make_directories("configs", 0755));
  if (start.kind == api::RunKind::kTrain) {
    std::string name = start.config_name.empty() ? "config.toml" : start.config_name;
    if (name.find('/') != std::string::npos || !os::is_relative_path(name)) name = "config.toml";
    CAIRN_CHECK_OK(put_file(configs, name, start.config, 0644));
  }
  CAIRN_CHECK_OK(put_file(configs, "command.txt", command_text(start), 0644));
  return output_place(journal, mounts, outputs_dir);
}

Result<SandboxSpec> plan_sandbox(const Journal& journal, const AttemptMounts& mounts, const OutputPlace& outputs,
                                 const GrantedGpus& gpus, const ExecutorSettings& settings) {
  const api::AttemptStart& start = *journal.start();
  if (start.command.empty()) return Error(Code::kRequestInvalid, "the run has no command");
  CAIRN_CHECK_OK(make_folders(journal.dir()));
  SandboxSpec spec;
  spec.root = journal.path("root");
  spec.command = start.command;
  spec.working_directory = "/workspace";
  spec.hidden = settings.hidden;
  spec.gpus = gpus.indexes;
  spec.binds.push_back({journal.path("home"), kHome, false});
  if (!settings.trainer_program.empty()) {
    spec.binds.push_back({settings.trainer_program, fmt::format("{}/bin/{}", kHome, kTrainerName), true});
  }
  spec.binds.push_back({journal.path("tmp"), "/tmp", false});
  const AttemptMount* workspace = mounts.workspace();
  spec.binds.push_back({workspace ? workspace->merged : journal.path("workspace"), "/workspace", false});
  if (mounts.primary() == nullptr) spec.binds.push_back({outputs.host_dir, outputs.inside, false});
  for (const AttemptMount& mount : mounts.all()) {
    if (mount.workspace) continue;
    bool read_only = !mount.writable();
    if (mount.grant.primary) spec.binds.push_back({mount.merged, "/volume", read_only});
    std::string own = "/mnt/" + mount.grant.volume;
    if (mount.grant.primary) spec.binds.push_back({mount.merged, own, read_only});
    if (mount.grant.directory != "/volume" && !(mount.grant.primary && mount.grant.directory == own)) {
      spec.binds.push_back({mount.merged, mount.grant.directory, read_only});
    }
  }
  spec.environment = {{"PATH", fmt::format("{0}/venv/bin:{0}/bin:{1}", kHome, kSystemPath)},
                      {"HOME", kHome},
                      {"USER", "root"},
                      {"LANG", "C.UTF-8"},
                      {"TMPDIR", "/tmp"},
                      {"VIRTUAL_ENV", fmt::format("{}/venv", kHome)},
                      {"PYTHONUNBUFFERED", "1"}};
  for (const auto& [name, value] : start.environment) spec.environment[name] = value;
  spec.environment["CAIRN_RUN_ID"] = start.run.hex();
  spec.environment["CAIRN_ATTEMPT"] = std::to_string(start.number);
  spec.environment["CAIRN_OUTPUT_DIR"] = outputs.inside;
  // CUDA counts the devices it can open, and the sandbox has the granted ones only: whatever their numbers on the node, inside
  // they are 0, 1, … None: nothing to see.
  std::string visible;
  for (size_t gpu = 0; gpu < gpus.indexes.size(); ++gpu) visible += (gpu == 0 ? "" : ",") + std::to_string(gpu);
  spec.environment["CUDA_VISIBLE_DEVICES"] = visible;
  return spec;
}

}  // namespace cairn::agent
