#include "cli/commands.h"

namespace cairn::cli {

void add_commands(Verb root) {
  add_up(root);
  add_down(root);
  add_login(root);
  add_config(root);
  Verb volumes = root.add("volumes", "Named storage: create, fill, read and delete volumes");
  add_volumes_create(volumes);
  add_volumes_list(volumes);
  add_volumes_info(volumes);
  add_volumes_put(volumes, false);
  add_volumes_get(volumes);
  add_volumes_ls(volumes);
  add_volumes_du(volumes);
  add_volumes_cat(volumes);
  add_volumes_rm(volumes);
  add_volumes_snapshots(volumes);
  add_volumes_break_lease(volumes);
  add_volumes_expand(volumes);
  add_volumes_delete(volumes);
  add_volumes_undelete(volumes);
  Verb storage = root.add("storage", "put, get and ls with short words; put creates the volume if it is missing");
  add_volumes_put(storage, true);
  add_volumes_get(storage);
  add_volumes_ls(storage);
  add_run(root);
  add_train(root);
  add_tokenize(root);
  add_nodes(root);
  add_tokens(root);
  add_server(root);
  add_agent(root);
  add_version(root);
}

}  // namespace cairn::cli
