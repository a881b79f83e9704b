# shellcheck shell=bash
# Part of host.sh: starts RabbitMQ in the background.
dnf install -y -q docker
systemctl start docker
docker run --rm --network host @IMAGE@ &
