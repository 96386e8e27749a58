#!/usr/bin/env bash
# with-postgres.sh COMMAND... - runs COMMAND with a private PostgreSQL 15 for tests and stops it afterwards.
# The cluster lives in a new temporary folder, listens on a Unix socket in it and nowhere else, and is not durable
# (fsync off). COMMAND finds it by CAIRN_TEST_POSTGRES. As root the server runs as `postgres` or `nobody`.
# Exit status: COMMAND's, or 69 when the server cannot be started. PG_BIN names another folder of binaries.
set -euo pipefail

if [[ $# -eq 0 ]]; then
  sed -n '2,5s/^# //p' "$0" >&2
  exit 64
fi
bin=${PG_BIN:-/usr/lib/postgresql/15/bin}
if [[ ! -x $bin/postgres || ! -x $bin/initdb ]]; then
  echo "with-postgres: PostgreSQL 15 is not in $bin (Debian packages: postgresql-15 postgresql-client-15)" >&2
  exit 69
fi

user=$(id -un)
as=()
if [[ $(id -u) == 0 ]]; then
  user=postgres
  id "$user" >/dev/null 2>&1 || user=nobody
  as=(setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups)
fi

# Not TMPDIR: the path of a Unix socket has at most 107 bytes.
home=$(mktemp -d /tmp/cairn-pg.XXXXXX)
server=
cleanup() {
  if [[ -n $server ]] && kill -INT "$server" 2>/dev/null; then wait "$server" 2>/dev/null || true; fi
  rm -rf "$home"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

fail() {
  echo "with-postgres: $1" >&2
  tail -n 20 "$home/log" >&2 || true
  exit 69
}

: >"$home/log"
chown -R "$user" "$home"
chmod 700 "$home" # trust below is as narrow as this folder
(cd / && exec "${as[@]}" "$bin/initdb" -D "$home/data" -U cairn -A trust -E UTF8 --locale=C --no-sync --no-instructions) \
  >>"$home/log" 2>&1 || fail "initdb failed"
cat >>"$home/data/postgresql.conf" <<EOF
listen_addresses = ''
unix_socket_directories = '$home'
max_connections = 100
shared_buffers = 64MB
fsync = off
synchronous_commit = off
full_page_writes = off
log_min_messages = error
timezone = 'UTC'
EOF
# The server ends with this script, even with kill -9.
(cd / && exec "${as[@]}" setpriv --pdeathsig INT "$bin/postgres" -D "$home/data") >>"$home/log" 2>&1 &
server=$!
for ((i = 0; ; ++i)); do
  "$bin/pg_isready" -q -h "$home" -U cairn -d postgres && break
  kill -0 "$server" 2>/dev/null || fail "the server ended at once"
  ((i < 300)) || fail "the server did not answer within 30 s"
  sleep 0.1
done

export CAIRN_TEST_POSTGRES="postgresql://cairn@/postgres?host=$home"
status=0
"$@" || status=$?
exit "$status"
