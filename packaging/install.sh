#!/bin/sh
# Installs a release of epochcost for Linux on x86-64: two programs and a Redis module, no
# compiler and no other package.
#
#   sh install.sh [--prefix DIR] [--version X.Y.Z] [--from ADDRESS]
#
# --prefix   where `bin/epochcost` goes; ~/.local by default
# --version  a release; the latest by default
# --from     address of the directory that holds the archive, in place of the repository's releases
#
# To remove it: rm -r PREFIX/bin/epochcost PREFIX/libexec/epochcost PREFIX/share/doc/epochcost
set -eu

releases=https://github.com/OWNER/epochcost/releases
asset=epochcost-x86_64-linux.tar.gz

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

prefix=${HOME:-}/.local
version=
from=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --version | --from)
            [ $# -ge 2 ] || fail "$1 takes a value"
            case $1 in
                --prefix) prefix=$2 ;;
                --version) version=$2 ;;
                --from) from=$2 ;;
            esac
            shift 2
            ;;
        -h | --help)
            sed -n '2,12s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        *) fail "unknown option $1; --help shows those there are" ;;
    esac
done
[ "$prefix" != /.local ] || fail 'HOME is not set: give --prefix DIR'

system=$(uname -s)
machine=$(uname -m)
if [ "$system" != Linux ] || [ "$machine" != x86_64 ]; then
    fail "there is no build for $system on $machine: build it from the source, as README.md says"
fi
if [ -z "$from" ]; then
    if [ -z "$version" ]; then
        from=$releases/latest/download
    else
        from=$releases/download/v${version#v}
    fi
fi

if command -v curl >/dev/null; then
    get() { curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"; }
elif command -v wget >/dev/null; then
    get() { wget --quiet --tries=3 --output-document="$2" "$1"; }
else
    fail 'neither curl nor wget is installed: install one'
fi

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
for file in "$asset" "$asset.sha256"; do
    get "${from%/}/$file" "$directory/$file" || fail "failed to fetch ${from%/}/$file"
done
(cd "$directory" && sha256sum --check --status "$asset.sha256") ||
    fail "the checksum of $asset is not the one beside it: nothing was installed"
tar -xzf "$directory/$asset" -C "$directory" --no-same-owner

unpacked=$directory/${asset%.tar.gz}
"$unpacked/bin/epochcost" --version >/dev/null ||
    fail 'the program does not start here: it takes glibc 2.28 or newer (ldd --version)'
mkdir -p "$prefix/bin" "$prefix/libexec" "$prefix/share/doc"
# The worker first: a program never stands beside a worker of another version for long.
for part in libexec/epochcost share/doc/epochcost bin/epochcost; do
    rm -rf "${prefix:?}/$part"
    mv "$unpacked/$part" "$prefix/$part"
done

printf '%s is in %s\n' "$("$prefix/bin/epochcost" --version)" "$prefix/bin"
case :$PATH: in
    *:"$prefix/bin":*) printf 'begin with: epochcost run smoke\n' ;;
    *) printf 'begin with: %s run smoke\n' "$prefix/bin/epochcost" ;;
esac
