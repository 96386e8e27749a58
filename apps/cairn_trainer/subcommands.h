// The subcommands of cairn-trainer, each in a file of its own. `argv[0]` is the subcommand's name. They print their errors
// themselves and return the exit code that src/base/error_codes.def gives the error (0 when all went well, 2 for wrong usage).
#pragma once

#include "base/error.h"

namespace cairn::apps {

// Prints "cairn-trainer: <message>" and the hint on standard error; returns the exit code of the error.
int report(const Error& error);

int run_render(int argc, char** argv);
int run_train(int argc, char** argv);
int run_export(int argc, char** argv);
int run_import(int argc, char** argv);
int run_tokenize(int argc, char** argv);
int run_tokenizer(int argc, char** argv);

}  // namespace cairn::apps
