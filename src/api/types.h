// All wire types of the HTTP API. docs/API.md is the table of routes, bodies and answers.
#pragma once

#include "api/account.h"
#include "api/nodes.h"
#include "api/runs.h"
#include "api/uploads.h"
#include "api/volumes.h"
