// A whole server in this process, spoken to over loopback by the real client.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "api/json.h"
#include "client/api_client.h"
#include "net/transport.h"
#include "server/instance.h"
#include "testing/status_macros.h"
#include "testing/temporary_folder.h"
#include "transfer/api_remote.h"
#include "transfer/put.h"


namespace cairn::server {

class Silent final : public transfer::Progress {};

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    settings_.data_dir = folder_.path() + "/data";
    settings_.port = 0;
    start();
  }
  void TearDown() override {
    if (instance_) instance_->stop(seconds(5));
  }

  void start() {
    auto instance = Instance::start(settings_);
    ASSERT_TRUE(instance) << instance.error().to_string();
    instance_ = *std::move(instance);
    url_ = "http://127.0.0.1:" + std::to_string(instance_->port());
    admin_ = connect(instance_->admin_token());
  }
  std::unique_ptr<client::ApiClient> connect(const std::string& token) {
    client::ClientOptions options;
    options.url = url_;
    options.token = token;
    return std::make_unique<client::ApiClient>(transport_, system_clock(), system_random(), options);
  }
  Deadline soon() { return Deadline::after(seconds(20)); }

  net::HttpResponse send(const std::string& method, const std::string& target, const std::string& body = {},
                         net::HeaderList headers = {}, bool signed_in = true) {
    net::HttpRequest request;
    request.method = method;
    request.url = url_ + target;
    request.headers = std::move(headers);
    if (signed_in) request.headers.emplace_back("Authorization", "Bearer " + instance_->admin_token());
    request.body = {reinterpret_cast<const uint8_t*>(body.data()), body.size()};
    auto response = transport_.round_trip(request, soon());
    EXPECT_TRUE(response) << response.error().to_string();
    return response ? *response : net::HttpResponse();
  }
  static Code code_of(const net::HttpResponse& response) {
    auto error = api::error_from_json(response.body, response.status);
    return error ? error->code() : Code::kInternal;
  }

  std::string write_tree() {
    std::string top = folder_.path() + "/tree";
    std::filesystem::create_directories(top + "/sub/empty");
    std::ofstream(top + "/a.txt") << "hello\n";
    std::ofstream(top + "/sub/nothing");
    std::string big(3'000'000, '\0');
    SeededRandom random(5);
    random.fill({reinterpret_cast<uint8_t*>(big.data()), big.size()});
    std::ofstream(top + "/sub/big.bin", std::ios::binary) << big;
    return top;
  }
  Result<transfer::PutSummary> put(const std::string& volume, const std::string& local, const std::string& remote) {
    auto target = transfer::make_api_remote(*admin_, volume);
    transfer::PutOptions options;
    options.local = local;
    options.remote = remote;
    options.state_dir = folder_.path() + "/state";
    options.cache_dir = folder_.path() + "/cache";
    Silent silent;
    return transfer::put(*target, options, silent, soon());
  }

  testing::TemporaryFolder folder_;
  config::ServerSettings settings_;
  net::CurlTransport transport_;
  std::unique_ptr<Instance> instance_;
  std::string url_;
  std::unique_ptr<client::ApiClient> admin_;
};

}  // namespace cairn::server
