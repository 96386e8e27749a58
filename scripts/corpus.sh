#!/usr/bin/env bash
# Puts a real text corpus into DIR: the sources of the Linux kernel's documentation (about 3,200 files) and the WordNet
# dictionary (a few files of several MB), both from Debian packages. Nothing is installed.
#   scripts/corpus.sh DIR
set -euo pipefail
[ $# = 1 ] || { echo "usage: scripts/corpus.sh DIR" >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
if [ -d "$target/kernel" ] && [ -d "$target/wordnet" ]; then exit 0; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
cd "$scratch"
echo "== fetching the corpus from the Debian packages linux-doc-6.1 and wordnet-base"
if ! apt-get download -qq linux-doc-6.1 wordnet-base 2>/dev/null; then
  as_root=""; [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -qq
  apt-get download -qq linux-doc-6.1 wordnet-base 2>/dev/null
fi
for package in *.deb; do dpkg-deb -x "$package" unpacked; done
mkdir unpacked/wordnet
find unpacked/usr/share/wordnet -maxdepth 1 -type f -size +100k -exec mv {} unpacked/wordnet/ \;
rm -rf "$target/kernel" "$target/wordnet" "$target/.new"
mkdir "$target/.new"
cp -r unpacked/usr/share/doc/linux-doc-6.1/html/_sources "$target/.new/kernel"
cp -r unpacked/wordnet "$target/.new/wordnet"
mv "$target/.new/kernel" "$target/.new/wordnet" "$target/"
rmdir "$target/.new"
