#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "config/client_settings.h"
#include "config/nearest.h"
#include "config/server_settings.h"
#include "config/toml_reader.h"
#include "config/toml_depth.h"
#include "config/training_head.h"

namespace cairn::config {
namespace {

template <class T>
std::string complaint(const Result<T>& result) {
  if (result) return "accepted";
  EXPECT_EQ(result.error().code(), Code::kConfigInvalid);
  return result.error().message() + (result.error().hint().empty() ? "" : " (" + result.error().hint() + ")");
}

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("listen", "listen", 3), 0u);
  EXPECT_EQ(edit_distance("lsiten", "listen", 3), 1u);
  EXPECT_EQ(edit_distance("listn", "listen", 3), 1u);
  EXPECT_EQ(edit_distance("abc", "xyz", 2), 3u);
  EXPECT_EQ(edit_distance("abc", "abcdefgh", 2), 3u);
  EXPECT_EQ(nearest_word("volum", {"listen", "volume", "volumes"}), "volume");
  EXPECT_EQ(nearest_word("zzz", {"listen", "volume"}), std::nullopt);
}

// One edit from each of them: the one that begins alike, then the one that ends alike, then the first of the alphabet.
TEST(Nearest, PicksOneOfSeveralEquallyNearWordsWhateverTheirOrder) {
  EXPECT_EQ(nearest_word("bata", {"data", "beta"}), "beta");
  EXPECT_EQ(nearest_word("bata", {"beta", "data"}), "beta");
  EXPECT_EQ(nearest_word("form", {"for", "norm", "forms"}), "forms");
  EXPECT_EQ(nearest_word("seq_lan", {"seq_la", "seq_len"}), "seq_la");
  EXPECT_EQ(nearest_word("pathx", {"path", "paths"}), "paths");
  EXPECT_EQ(nearest_word("betas", {"betas2", "betas1"}), "betas1");
}

TEST(Toml, SplitsCommands) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(*split_command("python  train.py --name 'a b' \"c\\\"d\" e\\ f ''"),
            (Words{"python", "train.py", "--name", "a b", "c\"d", "e f", ""}));
  EXPECT_TRUE(split_command("  ")->empty());
  EXPECT_FALSE(split_command("a 'b"));
}

TEST(Toml, ClientSettings) {
  ClientSettings settings{"https://cairn.example.org", "t\"o\\k\nen", "nlp", "/home/a/.ssh/id", ""};
  auto back = parse_client_settings(render_client_settings(settings), "config.toml");
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->token, settings.token);
  EXPECT_EQ(back->url, settings.url);
  EXPECT_EQ(complaint(parse_client_settings("url = \"http://a\"\n\ntokn = \"x\"\n", "c.toml")),
            "c.toml, line 3: unknown key 'tokn' (did you mean 'token'?)");
  EXPECT_EQ(complaint(parse_client_settings("url = 5", "c.toml")), "c.toml, line 1: 'url' must be a text");
  EXPECT_EQ(complaint(parse_client_settings("url = \"ftp://x\"", "c.toml")), "c.toml, line 1: 'url' is 'ftp://x', which is no server URL");
  EXPECT_NE(complaint(parse_client_settings("token = \"x\"\nurl = \n", "c.toml")).find("c.toml, line 2: "), std::string::npos);
  EXPECT_EQ(complaint(parse_client_settings(std::string(2 << 20, '\n'), "c.toml")), "c.toml: the file is larger than 1 MiB");
}

// toml++ alone would end the program here, or do what it likes.
TEST(Toml, KeysThatBeginWithNoKeyCharacter) {
  for (const char* text : {"[(model]", "[[(a]]", "[a.(]", "(a = 1", "[ ]", "a.( = 1", "\u00e9 = 1", "a\u0192 = 1", "a = 1\u0192"}) {
    EXPECT_TRUE(complaint(parse_client_settings(text, "c.toml")).starts_with("c.toml")) << text;
  }
}

TEST(Toml, CharactersBeyondAscii) {
  auto read = parse_client_settings("# \u00e9\ntoken = \"\"\"\u0416 \\\n  \u0192\"\"\" # \u00e9\n", "c.toml");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->token, "\u0416 \u0192");
  // toml++ alone does what it likes with them outside of quotes.
  for (const char* text : {"\u00e9", "url = \"http://a\" \u0416", "\n\u00e9", "token = \u201cx\u201d", "a =0'''[[\u041e", "a = 9\"\"\"\u0192",
                           "a = \"\"\"x \\ \u0192 y\"\"\"", "a = 1\u0192", "[a\u0416]", "a = 'x\n\u00e9"}) {
    EXPECT_TRUE(complaint(parse_client_settings(text, "c.toml")).starts_with("c.toml, line ")) << text;
  }
}

std::string repeat(std::string_view part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

// toml++ alone would go one call deeper for each level, and end the program.
TEST(Toml, DeepTables) {
  const std::string deep = "tables and lists stand within each other more than 64 deep";
  for (const std::string& text :
       {"[" + repeat("a.", 131'000) + "a]", "[[" + repeat("a.", 131'000) + "a]]", repeat("a.", 131'000) + "a = 1",
        repeat("\"a\" . ", 65) + "a = 1", "[" + repeat("a.", 40) + "a]\n" + repeat("a.", 40) + "a = 1",
        "b = {" + repeat("a.", 40) + "a = {" + repeat("a.", 40) + "a = 1}}", "b = [{a.b.c = [1, 2]}, {" + repeat("a.", 70) + "a = 1}]",
        "[" + repeat("a.", 40) + "a] # [\nb = 1\nc = '[' # \"\n" + repeat("'.'.", 30) + "a = 1", repeat("a = {", 70), "a = " + repeat("[", 70),
        "a = [\n" + repeat("{a.a.a.a=[\n", 20)}) {
    auto result = parse_client_settings(text, "c.toml");
    EXPECT_NE(complaint(result).find(deep), std::string::npos) << text.substr(0, 200) << complaint(result);
  }
  EXPECT_EQ(complaint(parse_client_settings("\n\n[" + repeat("a.", 70) + "a]", "c.toml")), "c.toml, line 3: " + deep);
  for (const std::string& text :
       {"a = [" + repeat("1.5, ", 500) + "]", "a = [" + repeat("1.5\n, ", 500) + "]", repeat("a.b.c = 1.5\n", 500), repeat("[a.b]\nc = 1.5\n", 500),
        repeat("[[a.b]]\nc = [{a.b = 1.5, c.d = 0.5}, {}]\n", 500), "a = '" + repeat(".", 500) + "' # " + repeat(".", 500),
        "a = \"\"\"" + repeat("[.\n", 500) + "\"\"\"", "[" + repeat("a.", 63) + "a]\nb = 1", repeat("a.", 64) + "a = 1"}) {
    EXPECT_FALSE(too_deep_toml(text)) << text.substr(0, 200);
  }
}

TEST(Client, Precedence) {
  std::map<std::string, std::string> variables{{"CAIRN_URL", "http://env"}, {"CAIRN_TOKEN", ""}, {"HOME", "/home/a"}};
  GetEnvironment environment = [&](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  ClientSettings file{"http://file", "file-token", "file-team", "", ""};
  ClientOverrides flags;
  flags.team = "flag-team";
  ClientSettings settings = resolve_client_settings(file, overrides_of_environment(environment), flags);
  EXPECT_EQ(settings.url, "http://env");
  EXPECT_EQ(settings.token, "file-token");
  EXPECT_EQ(settings.team, "flag-team");
  EXPECT_EQ(client_settings_path(environment), "/home/a/.config/cairn/config.toml");
  variables["CAIRN_CONFIG"] = "/etc/c.toml";
  EXPECT_EQ(client_settings_path(environment), "/etc/c.toml");
}

TEST(Client, Urls) {
  EXPECT_EQ(*check_server_url("http://127.0.0.1:8470/"), "http://127.0.0.1:8470");
  EXPECT_EQ(*check_server_url("https://[::1]:8470"), "https://[::1]:8470");
  for (const char* bad : {"", "cairn", "http://", "http:///x", "http://u@h", "http://h?x", "http://h#x", "http://a b"}) {
    EXPECT_FALSE(check_server_url(bad)) << bad;
  }
}

TEST(Server, ReadsAll) {
  auto settings = parse_server_settings(R"(
listen = "0.0.0.0:9000"
data_dir = "/var/lib/cairn"
catalog = "postgresql://db/cairn"
[tls]
certificate = "/etc/cairn/cert.pem"
private_key = "/etc/cairn/key.pem"
[volumes]
default_size = "1Ti"
maximum_size = "2Ti"
history = "30d"
trash = "1d"
[gc]
grace = "2h"
[engines]
default = "torch"
[engines.torch]
command = "python3 -m train --config {config} --out {output}"
[engines.other]
command = ["run", "{volume}/x", "{\"json\": 1}"]
[limits]
log_lines_per_run = 1000
)", "server.toml");
  ASSERT_TRUE(settings) << settings.error().to_string();
  EXPECT_EQ(settings->host, "0.0.0.0");
  EXPECT_EQ(settings->port, 9000);
  EXPECT_EQ(settings->default_size_bytes, uint64_t{1} << 40);
  EXPECT_EQ(settings->engines.at("torch").size(), 7u);
  EXPECT_EQ(settings->default_engine, "torch");
  EXPECT_EQ(settings->gc_grace, Duration(hours(2)));
}

TEST(Server, RefusesWithLineAndNearestKey) {
  auto parse = [](const std::string& text) { return complaint(parse_server_settings("data_dir = \"/d\"\n" + text, "s.toml")); };
  EXPECT_EQ(parse(""), "accepted");
  EXPECT_EQ(parse("lsten = \"x:1\""), "s.toml, line 2: unknown key 'lsten' (did you mean 'listen'?)");
  EXPECT_EQ(parse("[volumes]\nhistry = \"7d\""), "s.toml, line 3: unknown key 'volumes.histry' (did you mean 'volumes.history'?)");
  EXPECT_EQ(parse("volumes = 5"), "s.toml, line 2: 'volumes' must be a table: [volumes]");
  EXPECT_EQ(parse("[tls]\ncertificate = \"x\""), "s.toml, line 2: 'tls' needs certificate and private_key, both or neither");
  EXPECT_NE(parse("catalog = \"sqlite:c.db\"").find("absolute path"), std::string::npos);
  EXPECT_EQ(parse("[volumes]\ndefault_size = \"30Ti\""), "s.toml, line 3: 'volumes.default_size' is larger than maximum_size");
  EXPECT_EQ(parse("[engines.a]\ncommand = \"x {conifg}\""),
            "s.toml, line 3: 'engines.a.command' has the unknown placeholder {conifg} (known: {config}, {output}, {volume}, {gpus})");
  EXPECT_EQ(parse("[engines.a]\ncommand = \"\""), "s.toml, line 3: 'engines.a.command' must be a command of at least one word");
  EXPECT_EQ(parse("[engines]\ndefault = \"cairn\""), "accepted");
  EXPECT_EQ(parse("[engines.cairn]\ncommand = \"x\""),
            "s.toml, line 3: 'engines.cairn.command' belongs to the built-in engine, which has a command already (choose another name)");
  EXPECT_EQ(parse("[engines]\ndefault = \"b\""), "s.toml, line 3: 'engines.default' names an engine that is not configured: 'b'");
  EXPECT_EQ(parse("[limits]\nconnections = 3"), "s.toml, line 3: 'limits.connections' must be a whole number from 16 to 100000");
  EXPECT_EQ(parse("listen = \"x\""), "s.toml, line 2: 'listen' is 'x' is not HOST:PORT (write it like 127.0.0.1:8470)");
}

TEST(Server, RelativeNamesStartFromItsFolder) {
  auto settings = parse_server_settings("data_dir = \"/d\"\n[tls]\ncertificate = \"c.pem\"\nprivate_key = \"/k/key.pem\"", "/etc/c/s.toml");
  ASSERT_TRUE(settings) << settings.error().to_string();
  EXPECT_EQ(settings->certificate_file, "/etc/c/c.pem");
  EXPECT_EQ(settings->private_key_file, "/k/key.pem");
}

TEST(Server, Listen) {
  EXPECT_EQ(parse_listen("[::1]:80")->host, "::1");
  EXPECT_EQ(parse_listen(":80")->host, "0.0.0.0");
  for (const char* bad : {"", "x", "x:", "x:99999", "::1:80", "[::1:80", "x:8a"}) EXPECT_FALSE(parse_listen(bad)) << bad;
}

TEST(Agent, Settings) {
  auto settings = parse_agent_settings("server_url = \"https://c\"\ntoken_file = \"/t\"\ndata_dir = \"/d\"\ndisk_reserve = \"2Gi\"", "a.toml");
  ASSERT_TRUE(settings) << settings.error().to_string();
  EXPECT_EQ(settings->disk_reserve_bytes, 2 * limits::kGiB);
  EXPECT_EQ(settings->token_file, "/t");
  EXPECT_EQ(settings->ca_file, "");
  auto relative = parse_agent_settings("server_url = \"https://c\"\ntoken_file = \"t\"\nca_file = \"../ca\"\ndata_dir = \"/d\"", "/etc/c/a.toml");
  ASSERT_TRUE(relative) << relative.error().to_string();
  EXPECT_EQ(relative->token_file, "/etc/c/t");
  EXPECT_EQ(relative->ca_file, "/etc/c/../ca");
  settings = parse_agent_settings("server_url = \"https://c\"\ntoken = \"t\"\ndata_dir = \"/d\"\nhidden = [\"/opt/store\", \"/opt/c\"]", "a.toml");
  ASSERT_TRUE(settings) << settings.error().to_string();
  EXPECT_EQ(settings->hidden, (std::vector<std::string>{"/opt/store", "/opt/c"}));
  EXPECT_NE(complaint(parse_agent_settings("server_url = \"https://c\"\ntoken = \"t\"\ndata_dir = \"/d\"\nhidden = [\"store\"]", "a.toml")).find("absolute"),
            std::string::npos);
  EXPECT_NE(complaint(parse_agent_settings("server_url = \"https://c\"\ndata_dir = \"/d\"", "a.toml")).find("one of them"), std::string::npos);
}

TEST(Training, Head) {
  auto head = read_training_head("mode = \"sft\"\nvolume = \"research\"\nmax_steps = 5\n[model]\nname = \"x\"\n", "t.toml");
  ASSERT_TRUE(head) << head.error().to_string();
  EXPECT_EQ(head->mode, "sft");
  EXPECT_EQ(head->volume, "research");
  EXPECT_EQ(read_training_head("gpu_type = \"H200:2\"\n", "t.toml")->gpu_type, "H200:2");
  EXPECT_EQ(complaint(read_training_head("gpu_typ = \"H200\"\n", "t.toml")), "t.toml, line 1: 'gpu_typ' is not known (did you mean 'gpu_type'?)");
  EXPECT_EQ(complaint(read_training_head("volme = \"research\"\n", "t.toml")), "t.toml, line 1: 'volme' is not known (did you mean 'volume'?)");
  EXPECT_EQ(complaint(read_training_head("model = \"x\"\n", "t.toml")), "accepted");
  EXPECT_EQ(complaint(read_training_head("a = 1\nmode = 5\n", "t.toml")), "t.toml, line 2: 'mode' must be a text");
  EXPECT_NE(complaint(read_training_head("a = 1\nb = = 2\n", "t.toml")).find("t.toml, line 2: "), std::string::npos);
}

}  // namespace
}  // namespace cairn::config
