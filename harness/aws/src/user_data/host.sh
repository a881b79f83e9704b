#!/bin/bash
# Before anything can fail: the instance ends on its own.
shutdown -h +@MINUTES@
set -euo pipefail
mkdir -p /opt/epochcost
cd /opt/epochcost
export AWS_REGION=@REGION@ AWS_DEFAULT_REGION=@REGION@

# Copies an object. A new role's permissions may be seconds late.
copy() {
    for _ in {1..30}; do
        aws s3 cp --quiet "$1" "$2" && return
        sleep 2
    done
    return 1
}

exec >log.txt 2>&1
# A host that cannot serve leaves its log and ends its instance, whatever fails on the way.
finish() {
    set +e
    copy log.txt @LOG_URL@
    shutdown -h now
}
trap finish EXIT

# Before a service adds a network of its own.
address=$(hostname -I | cut -d' ' -f1)
@SERVICE@
server=$!

# The address is published once the service accepts connections.
until (exec 3<>"/dev/tcp/$address/@PORT@") 2>/dev/null; do
    kill -0 "$server"
    sleep 0.2
done
echo "$address" >address.txt
copy address.txt @ADDRESS_URL@
wait "$server"
