// The same over TLS, with a certificate made here: round trips, uploads, files, and what the handshake refuses.
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "http/test_server.h"

namespace cairn::http {
namespace {

// A self-signed P-256 certificate for "localhost", in two files of a folder of its own.
class Certificate {
 public:
  Certificate() {
    char folder[] = "/tmp/cairn-tls-XXXXXX";
    EXPECT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                               0);
    X509_set_issuer_name(certificate, name);
    EXPECT_GT(X509_sign(certificate, key, EVP_sha256()), 0);
    FILE* file = std::fopen(certificate_file().c_str(), "w");
    PEM_write_X509(file, certificate);
    std::fclose(file);
    file = std::fopen(key_file().c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  ~Certificate() { std::filesystem::remove_all(folder_); }
  std::string certificate_file() const { return folder_ + "/cert.pem"; }
  std::string key_file() const { return folder_ + "/key.pem"; }
  ServerSettings apply(ServerSettings settings) const {
    settings.certificate_file = certificate_file();
    settings.private_key_file = key_file();
    return settings;
  }

 private:
  std::string folder_;
};

// A TLS client that accepts exactly that certificate.
class TlsClient {
 public:
  TlsClient(uint16_t port, const Certificate& certificate, int version_max = 0) : raw_(port) {
    context_ = SSL_CTX_new(TLS_client_method());
    if (version_max != 0) {
      SSL_CTX_set_security_level(context_, 0);  // else OpenSSL itself would not offer it
      SSL_CTX_set_min_proto_version(context_, 0);
      SSL_CTX_set_max_proto_version(context_, version_max);
    }
    SSL_CTX_load_verify_locations(context_, certificate.certificate_file().c_str(), nullptr);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    ssl_ = SSL_new(context_);
    SSL_set1_host(ssl_, "localhost");
    SSL_set_fd(ssl_, raw_.fd());
    connected_ = SSL_connect(ssl_) == 1;
    ERR_clear_error();
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  int version() const { return SSL_version(ssl_); }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      int sent = SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Until `size` bytes of body have come after the head, or the end.
  std::string read_body(size_t size) {
    std::string got;
    char buffer[32 * 1024];
    for (;;) {
      size_t end = got.find("\r\n\r\n");
      if (end != std::string::npos && got.size() - end - 4 >= size) return got.substr(end + 4);
      int count = SSL_read(ssl_, buffer, sizeof buffer);
      if (count <= 0) {
        clean_end_ = SSL_get_error(ssl_, count) == SSL_ERROR_ZERO_RETURN;
        ERR_clear_error();
        return got;
      }
      got.append(buffer, static_cast<size_t>(count));
    }
  }
  // The server said that it was done; nothing was cut off.
  bool clean_end() const { return clean_end_; }

 private:
  RawClient raw_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
  bool clean_end_ = false;
};

TEST(Tls, RoundTripsKeepTheConnection) {
  Certificate certificate;
  TestServer server(echo, certificate.apply(patient_settings()));
  TlsClient client(server.port(), certificate);
  ASSERT_TRUE(client.connected());
  EXPECT_GE(client.version(), TLS1_2_VERSION);
  for (int i = 0; i < 5; ++i) {
    client.send(get("/a"));
    EXPECT_EQ(client.read_body(8), "path /a\n");
  }
  std::string body(700'000, 'b');
  client.send(put("/b", body.size()) + body);
  EXPECT_EQ(client.read_body(body.size()), body);
  client.send(get("/last", "Connection: close\r\n"));
  EXPECT_EQ(client.read_body(11), "path /last\n");
  EXPECT_EQ(client.read_body(1), "");
  EXPECT_TRUE(client.clean_end());
}

TEST(Tls, UploadsComeInLargePieces) {
  struct Sink final : BodySink {
    explicit Sink(std::atomic<size_t>& count) : pieces(count) {}
    Status write(std::span<const uint8_t> piece) override {
      ++pieces;
      bytes += piece.size();
      return ok();
    }
    Response finish() override { return Response::text(200, std::to_string(bytes)); }
    std::atomic<size_t>& pieces;
    size_t bytes = 0;
  };
  std::atomic<size_t> pieces{0};
  Certificate certificate;
  TestServer server(
      [&](const RequestHead&) {
        auto open = [&](const Request&) -> Result<std::unique_ptr<BodySink>> { return std::make_unique<Sink>(pieces); };
        return RoutePlan::upload("u", open, 64 << 20);
      },
      certificate.apply(patient_settings()));
  TlsClient client(server.port(), certificate);
  ASSERT_TRUE(client.connected());
  client.send(put("/u", 8 << 20));
  client.send(std::string(8 << 20, 'x'));
  EXPECT_EQ(client.read_body(7), std::to_string(8 << 20));
  EXPECT_LE(pieces, 33u);  // 8 MiB / 256 KiB, and not 512 reads of 16 KiB
}

TEST(Tls, FilesAreSent) {
  Certificate certificate;
  std::string bytes(3'000'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 7);
  TestServer server(
      [&](const RequestHead&) {
        return RoutePlan::buffered("f", [&](const Request&) {
          FILE* file = std::tmpfile();
          int fd = ::dup(::fileno(file));
          std::fclose(file);
          EXPECT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
          Response response;
          response.file = FileBody::owning(fd, 0, bytes.size());
          return response;
        });
      },
      certificate.apply(patient_settings()));
  TlsClient client(server.port(), certificate);
  client.send(get("/f"));
  EXPECT_EQ(client.read_body(bytes.size()), bytes);
  client.send(get("/f", "Range: bytes=1000-1999999\r\n"));
  EXPECT_EQ(client.read_body(1'999'000), bytes.substr(1000, 1'999'000));
}

TEST(Tls, OldVersionsAndSilenceAndPlainHttpAreRefused) {
  Certificate certificate;
  TestServer server(echo, certificate.apply(quick_settings()));
  EXPECT_FALSE(TlsClient(server.port(), certificate, TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(server.port(), certificate, TLS1_2_VERSION).connected());
  RawClient silent(server.port());
  EXPECT_EQ(silent.read_to_end(), "");
  RawClient plain(server.port());
  plain.send(get("/"));
  std::string answer = plain.read_to_end();
  EXPECT_EQ(answer.find("HTTP/1.1"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return server->counters().handshake_failures >= 3; }));
}

TEST(Tls, StopClosesIdleConnections) {
  Certificate certificate;
  TestServer server(echo, certificate.apply(patient_settings()));
  TlsClient client(server.port(), certificate);
  client.send(get("/a"));
  EXPECT_EQ(client.read_body(8), "path /a\n");
  auto start = std::chrono::steady_clock::now();
  server->stop(seconds(30));
  EXPECT_LT(seconds_since(start), 5);
}

TEST(Tls, UnusableFilesAreNamed) {
  Certificate certificate;
  FunctionHandler handler(echo);
  ServerSettings settings = certificate.apply(ServerSettings());
  settings.private_key_file = "/no/such/key.pem";
  auto started = Server::start(settings, handler);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message().find("/no/such/key.pem"), std::string::npos);
  settings.private_key_file.clear();
  EXPECT_FALSE(Server::start(settings, handler));
}

}  // namespace
}  // namespace cairn::http
