// Wire types of the server itself and of people: version, who am I, users, teams, tokens.
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
  std::string team;   // the owner that requests act for; empty: the person
  std::string role;   // "admin" or "member" of that team; empty without a team
  std::string token;  // name of the token
  bool is_operator = false;
  std::optional<Time> expires_at;
};

struct CreateUser {
  std::string name;
  bool is_operator = false;
};

struct User {
  UserId id;
  std::string name;
  bool is_operator = false;
  bool disabled = false;
  Time created_at;
};

struct UserList {
  std::vector<User> users;
};

struct CreateTeam {
  std::string name;
};

struct AddMember {
  std::string user;
  std::string role = "member";  // or "admin"
};

struct Member {
  std::string user;
  std::string role;
};

struct Team {
  std::string name;
  std::vector<Member> members;
  Time created_at;
};

struct TeamList {
  std::vector<Team> teams;
};

struct CreateToken {
  std::string name;
  std::string user;            // empty: oneself; others need an operator
  std::string scope = "user";  // or "node"
  std::optional<uint64_t> expires_in_seconds;
};

struct Token {
  TokenId id;
  std::string name;
  std::string user;
  std::string scope;
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
