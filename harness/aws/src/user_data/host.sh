#!/bin/bash
# Before anything can fail: the instance ends on its own.
shutdown -h +@MINUTES@
set -euo pipefail
mkdir -p /opt/epochcost
cd /opt/epochcost

exec >log.txt 2>&1
# A host that cannot serve leaves its log and ends its instance.
finish() {
    aws s3 cp --quiet log.txt @LOG_URL@
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
aws s3 cp --quiet address.txt @ADDRESS_URL@
wait "$server"
