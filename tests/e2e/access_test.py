"""Who may, and over what: tokens and their scopes, a lease that is broken by hand, and a server and a node apart from each other
that speak TLS under an authority of one's own."""

import os
import shutil
import subprocess
import tempfile
import unittest

from cairn_box import Box, BoxTest, free_port, main, noise, read, tree, wait_until, write


class TokensTest(BoxTest):
    def token(self, name, *args):
        return self.box.json("tokens", "create", name, *args)

    def test_a_token_is_made_listed_and_revoked(self):
        made = self.token("laptop", "--expires", "30d")
        listed = {token["id"]: token for token in self.box.json("tokens", "list")}
        self.assertEqual(listed[made["id"]]["name"], "laptop")
        self.assertNotIn(made["secret"], str(listed))
        mine = {"CAIRN_TOKEN": made["secret"]}
        self.assertEqual(self.box.json("whoami", env=mine)["token"], "laptop")
        self.box.cairn("tokens", "revoke", made["id"])
        self.box.fails("token_invalid", 4, "whoami", env=mine)
        again = self.box.fails("object_not_found", 5, "tokens", "revoke", made["id"])
        self.assertIn("was revoked already", again["message"])
        self.assertNotIn("already", self.box.fails("object_not_found", 5, "tokens", "revoke", "0" * 32)["message"])

    def test_login_without_a_terminal(self):
        nobody = {"CAIRN_TOKEN": None, "CAIRN_URL": None, "XDG_CONFIG_HOME": self.box.local("new-config")}
        alone = {"prefix": ("setsid", "--wait")}
        error = self.box.fails("usage", 2, "login", "--url", self.box.url, env=nobody, **alone)
        self.assertIn(f"cairn login --url {self.box.url} --token TOKEN", error["hint"])
        self.assertIn("CAIRN_TOKEN", error["hint"])
        self.box.cairn("login", "--url", self.box.url, env={**nobody, "CAIRN_TOKEN": self.box.token}, **alone)
        self.assertEqual(self.box.json("whoami", env=nobody)["url"], self.box.url)

    def test_a_token_that_reads_writes_nothing(self):
        self.volume("guarded", notes=b"kept\n")
        reader = {"CAIRN_TOKEN": self.token("reader", "--scope", "read")["secret"]}
        self.assertEqual(self.box.cairn("volumes", "cat", "guarded", "notes", env=reader).out, b"kept\n")
        other = write(self.box.local("other"), b"overwritten\n")
        self.box.fails("not_allowed", 4, "volumes", "put", "guarded", other, "notes", env=reader)
        self.box.fails("not_allowed", 4, "volumes", "delete", "guarded", "--yes", env=reader)
        self.box.fails("not_allowed", 4, "tokens", "create", "more", env=reader)
        self.assertEqual(self.cat("guarded", "notes"), b"kept\n")

    def test_a_broken_lease_lets_the_next_one_write(self):
        self.volume("stuck")
        lost = self.box.local("lost")
        write(lost, noise(1, 200_000_000))
        first = self.box.spawn("volumes", "put", "stuck", lost)
        wait_until(lambda: self.box.json("volumes", "info", "stuck")["writer"], 20, "the put holds the lease")
        first.send_signal(19)  # SIGSTOP: alive, and silent
        other = write(self.box.local("elsewhere/next"), b"next\n")
        elsewhere = {"XDG_STATE_HOME": self.box.local("other-state")}
        self.box.fails("writer_lease_held", 6, "volumes", "put", "stuck", other, env=elsewhere)
        broken = self.box.cairn("volumes", "break-lease", "stuck", "--yes").notes
        self.assertIn("is written by put from", broken)
        self.assertNotIn("is lost", broken)
        self.assertEqual(self.box.cairn("volumes", "break-lease", "stuck", "--yes").notes, "")
        self.box.cairn("volumes", "put", "stuck", other, env=elsewhere)
        first.send_signal(18)
        self.assertNotEqual(first.wait(timeout=60), 0)
        self.assertEqual(self.names("stuck"), {"next"})


class TlsTest(unittest.TestCase):
    """`cairn server` and `cairn agent` as two programs, and a client, over TLS."""

    @classmethod
    def setUpClass(cls):
        cls.box = Box("tls", start=False)
        cls.authority = cls.certificate("authority", "-x509", "-addext", "basicConstraints=critical,CA:TRUE")
        cls.stranger = cls.certificate("stranger", "-x509", "-addext", "basicConstraints=critical,CA:TRUE")
        cls.sign("server", cls.authority)
        cls.box.url = f"https://127.0.0.1:{cls.box.port}"
        cls.write_config("server.toml", f'''listen = "127.0.0.1:{cls.box.port}"
data_dir = "{cls.box.data}"
[tls]
certificate = "{cls.box.folder}/server.pem"
private_key = "{cls.box.folder}/server.key"
''')
        cls.client_config = cls.write_config("client.toml", f'ca_file = "{cls.authority}"\n')
        cls.server = cls.box.spawn("server", "--config", f"{cls.box.folder}/server.toml")
        wait_until(lambda: os.path.exists(f"{cls.box.data}/admin-token") and cls.cairn("whoami", expect=None).code == 0, 30,
                   "the server answers")
        token = cls.cairn("tokens", "create", "node", "--scope", "node", "-o", "json").document()["secret"]
        cls.write_config("agent.toml", f'''server_url = "{cls.box.url}"
token = "{token}"
data_dir = "{cls.box.folder}/node"
ca_file = "{cls.authority}"
''')
        cls.agent = cls.box.spawn("agent", "--config", f"{cls.box.folder}/agent.toml")

    @classmethod
    def tearDownClass(cls):
        cls.agent.terminate()
        cls.agent.wait(timeout=60)
        cls.server.terminate()
        cls.server.wait(timeout=60)
        cls.box.stop()

    @classmethod
    def openssl(cls, *args):
        subprocess.run(["openssl", *args], cwd=cls.box.folder, check=True, capture_output=True)

    @classmethod
    def certificate(cls, name, *args):
        cls.openssl("req", *args, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
        return f"{cls.box.folder}/{name}.pem"

    @classmethod
    def sign(cls, name, authority):
        cls.certificate(name + "-request")
        cls.write_config("names", "subjectAltName=IP:127.0.0.1\n")
        cls.openssl("x509", "-req", "-in", f"{name}-request.pem", "-CA", authority, "-CAkey", authority[:-4] + ".key",
                    "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem")
        os.rename(f"{cls.box.folder}/{name}-request.key", f"{cls.box.folder}/{name}.key")

    @classmethod
    def write_config(cls, name, text):
        return write(f"{cls.box.folder}/{name}", text)

    @classmethod
    def cairn(cls, *args, **options):
        environment = {"CAIRN_CONFIG": cls.client_config, **options.pop("env", {})}
        return cls.box.cairn(*args, env=environment, **options)

    def test_put_get_and_a_run(self):
        files = self.box.local("files")
        write(f"{files}/small", b"over TLS\n")
        write(f"{files}/large", noise(2, 40_000_000))
        self.cairn("volumes", "create", "research", "--size", "1Gi")
        self.cairn("volumes", "put", "research", files + "/", "in")
        self.cairn("volumes", "get", "research", "in", self.box.local("back/"))
        self.assertEqual(tree(self.box.local("back/in")), tree(files))
        wait_until(lambda: self.cairn("nodes", "list", "-o", "json").document(), 30, "the node is there")
        done = self.cairn("run", "--volume", "research", "--no-upload", "--", "cat /volume/in/small; echo made > /volume/made")
        self.assertIn(b"over TLS", done.out)
        self.assertEqual(self.cairn("volumes", "cat", "research", "made").out, b"made\n")

    def test_another_authority_is_refused(self):
        wrong = self.write_config("wrong.toml", f'ca_file = "{self.stranger}"\n')
        error = self.box.fails("server_unavailable", 8, "whoami", env={"CAIRN_CONFIG": wrong})
        self.assertIn("ca_file", error["hint"])
        self.box.fails("server_unavailable", 8, "whoami")  # an authority that the machine does not know


class TlsBoxTest(unittest.TestCase):
    """`cairn up` with a certificate in server.toml."""

    def setUp(self):
        self.box = Box("tls-box", start=False)
        self.addCleanup(self.box.stop)
        self.certificate = f"{self.box.folder}/cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=box", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{self.box.folder}/key.pem",
                        "-out", self.certificate], check=True, capture_output=True)
        self.tls = f'[tls]\ncertificate = "{self.certificate}"\nprivate_key = "{self.box.folder}/key.pem"\n'

    def test_a_new_box_trusts_its_own_certificate(self):
        write(f"{self.box.data}/server.toml", f'listen = "127.0.0.1:{self.box.port}"\ndata_dir = "{self.box.data}"\n{self.tls}')
        self.box.url = f"https://127.0.0.1:{self.box.port}"
        self.box.start()
        self.assertEqual(self.box.json("whoami")["user"], "admin")  # the settings that `up` kept name the certificate
        done = self.box.cairn("run", "--no-upload", "--", "echo over TLS")
        self.assertIn(b"over TLS", done.out)

    def test_an_older_box_is_told_what_its_agent_lacks(self):
        self.box.start()
        self.box.down()
        with open(f"{self.box.data}/server.toml", "a") as file:
            file.write(self.tls)
        error = self.box.json("up", "--data", self.box.data, "--detach", expect=None, timeout=60)["error"]
        self.assertIn("agent.toml", error["message"])
        agent = read(f"{self.box.data}/agent.toml").decode().replace("http://", "https://")
        write(f"{self.box.data}/agent.toml", agent + f'ca_file = "{self.certificate}"\n')
        self.box.start()
        self.box.url = f"https://127.0.0.1:{self.box.port}"
        config = write(self.box.local("client.toml"), f'ca_file = "{self.certificate}"\n')
        self.assertEqual(self.box.json("whoami", env={"CAIRN_CONFIG": config})["user"], "admin")


class PortTest(unittest.TestCase):
    """`cairn up` after the port in server.toml was changed."""

    def test_the_agent_is_not_left_at_the_old_one(self):
        box = Box("port")
        self.addCleanup(box.stop)
        box.down()
        old, new = f"127.0.0.1:{box.port}", f"127.0.0.1:{free_port()}"
        server, agent = f"{box.data}/server.toml", f"{box.data}/agent.toml"
        write(server, read(server).decode().replace(old, new))
        error = box.json("up", "--data", box.data, "--detach", expect=None, timeout=60)["error"]
        self.assertIn(f"agent.toml says http://{old}, and the server listens on {new}", error["message"])
        self.assertIn(f'set server_url = "http://{new}"', error["message"] + error["hint"])


class HiddenTest(unittest.TestCase):
    """A box that lies, by a link and by its options, in a folder that every run is shown."""

    def setUp(self):
        try:
            self.shown = tempfile.mkdtemp(prefix="cairn-test-", dir="/opt")
        except OSError as error:
            self.skipTest(f"nothing can be made in /opt: {error}")
        self.addCleanup(shutil.rmtree, self.shown, ignore_errors=True)
        for name in ("data", "catalog"):
            os.mkdir(f"{self.shown}/{name}")
        self.box = Box("hidden", start=False,
                       up=["--store", f"{self.shown}/store", "--catalog", f"{self.shown}/catalog/c.db"])
        self.addCleanup(self.box.stop)
        os.symlink(f"{self.shown}/data", self.box.data)

    def seen(self):
        return self.box.cairn("run", "--no-upload", "--", f"find {self.shown} -type f; echo looked").text

    def test_runs_see_none_of_it(self):
        self.box.start()
        self.assertTrue(os.path.exists(f"{self.shown}/data/admin-token") and os.path.exists(f"{self.shown}/catalog/c.db"))
        self.assertEqual(self.seen(), "looked\n")
        self.box.down()
        # A box that was made before its agent.toml had the list.
        agent = read(f"{self.box.data}/agent.toml").decode().splitlines(keepends=True)
        write(f"{self.box.data}/agent.toml", "".join(line for line in agent if not line.startswith("hidden")))
        self.box.start()
        self.assertEqual(self.seen(), "looked\n")


if __name__ == "__main__":
    main()
