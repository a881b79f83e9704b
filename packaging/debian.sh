#!/usr/bin/env bash
# Starts built programs in Debian 11 (glibc 2.31), where nobody built them: the program, the worker,
# the S3 server, and the Redis module in Debian's own Redis.
#
#     packaging/debian.sh target/x86_64-unknown-linux-gnu/release
#
# Takes root, mmdebstrap, objdump and a mirror of Debian.
set -euo pipefail

binaries=$(realpath "$1")
private=(bootstrap epochcost-s3 libepochcost_tensordb.so)
newest=2.28
root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT

echo "== symbols of glibc: none newer than $newest"
for name in epochcost "${private[@]}"; do
    symbols=$(objdump -T "$binaries/$name" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort --version-sort | tail -1)
    printf '%s: %s\n' "$name" "$symbols"
    if [ "$(printf '%s\n%s\n' "$symbols" "$newest" | sort --version-sort | tail -1)" != "$newest" ]; then
        echo "error: $name needs glibc $symbols" >&2
        exit 1
    fi
done

echo '== Debian 11'
mmdebstrap --quiet --variant=minbase --include=redis-server bullseye "$root"
mkdir -p "$root/usr/local/libexec/epochcost"
install -m 755 "$binaries/epochcost" "$root/usr/local/bin/"
for name in "${private[@]}"; do install -m 755 "$binaries/$name" "$root/usr/local/libexec/epochcost/"; done

inside() { chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root "$@"; }
there=/usr/local/libexec/epochcost
# Not `head`: it would end the script where it ends before `ldd` does.
inside ldd --version | sed -n 1p

echo '== program'
inside epochcost --version
inside sh -c 'cd /root && epochcost run smoke --platform sim --out run'

echo '== worker'
inside "$there/bootstrap" --describe

echo '== S3 server'
inside "$there/epochcost-s3" --version

echo '== module in Redis'
inside redis-server --version
inside sh -c "
    redis-server --port 0 --unixsocket /root/socket --daemonize yes --logfile /root/redis.log \
        --loadmodule $there/libepochcost_tensordb.so
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -S /root/socket ] && break; sleep 0.2; done
    redis-cli -s /root/socket module list || { cat /root/redis.log; exit 1; }
    redis-cli -s /root/socket shutdown nosave
" | tee "$root/modules"
grep -q epochcost "$root/modules" || { cat "$root/root/redis.log"; exit 1; }
echo 'all of them start'
