// Wire types of the server itself and of people: version, who am I, users, tokens.
//
// Plain values. Every struct below has `to_json` and `from_json` in api/json.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace cairn::api {

// The version of the routes and bodies; a client refuses a server with another one.
inline constexpr uint64_t kApiVersion = 1;

struct ServerVersion {
  std::string version;        // of the program, "0.1.0"
  uint64_t api = kApiVersion;
  Time server_time;
};

struct WhoAmI {
  std::string user;
  std::string role;   // "admin" or "member"
  std::string token;  // label of the token
  std::vector<std::string> scopes;
  std::optional<Time> expires_at;
};

struct CreateUser {
  std::string name;
  std::string role = "member";  // or "admin"
};

struct User {
  UserId id;
  std::string name;
  std::string role;
  std::string state;  // "active" or "disabled"
  Time created_at;
};

struct UserList {
  std::vector<User> users;
};

struct CreateToken {
  std::string label;
  std::string user;                 // empty: oneself; others need an admin
  std::vector<std::string> scopes;  // empty: the server's default for people; "node" for a node's agent
  std::optional<uint64_t> expires_in_seconds;
};

struct Token {
  TokenId id;
  std::string label;
  std::string user;
  std::vector<std::string> scopes;
  Time created_at;
  std::optional<Time> expires_at;
  bool revoked = false;
};

// The only answer that ever holds a token's secret.
struct CreatedToken {
  Token token;
  std::string secret;
};

struct TokenList {
  std::vector<Token> tokens;
};

}  // namespace cairn::api
