// Every command registers itself with one function; `add_commands` calls them all, in the order that help shows.
#pragma once

#include "cli/args.h"
#include "cli/context.h"

namespace cairn::cli {

void add_commands(Verb root);

void add_up(Verb root);
void add_down(Verb root);
void add_server(Verb root);
void add_agent(Verb root);
void add_login(Verb root);
void add_config(Verb root);
void add_version(Verb root);
void add_nodes(Verb root);
void add_tokens(Verb root);
void add_train(Verb root);
void add_run(Verb root);
void add_tokenize(Verb root);  // and `tokenizer train`

void add_volumes_create(Verb volumes);
void add_volumes_list(Verb volumes);
void add_volumes_info(Verb volumes);
void add_volumes_expand(Verb volumes);
void add_volumes_delete(Verb volumes);
void add_volumes_undelete(Verb volumes);
void add_volumes_snapshots(Verb volumes);
void add_volumes_break_lease(Verb volumes);
void add_volumes_rm(Verb volumes);
void add_volumes_du(Verb volumes);
void add_volumes_cat(Verb volumes);
// Also below `cairn storage`; `create_missing`: `put` makes the volume when there is none.
void add_volumes_put(Verb parent, bool create_missing);
void add_volumes_get(Verb parent);
void add_volumes_ls(Verb parent);

}  // namespace cairn::cli
