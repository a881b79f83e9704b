#!/bin/bash
set -euo pipefail
here=$HOME/rabbitmq
mkdir -p "$here"
cat > "$here/rabbitmq.conf" <<CONF
listeners.tcp.1 = $EMULATOR_ADDRESS:5672
loopback_users = none
log.console = true
log.file = false
CONF
echo '[].' > "$here/plugins"
export ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$EMULATOR_PORT_MAPPER
export RABBITMQ_NODENAME=emulated@localhost RABBITMQ_CONFIG_FILE=$here/rabbitmq
export RABBITMQ_CONF_ENV_FILE=/dev/null RABBITMQ_ENABLED_PLUGINS_FILE=$here/plugins
export RABBITMQ_MNESIA_BASE=$here/mnesia RABBITMQ_LOG_BASE=$here/log RABBITMQ_LOGS=-
export RABBITMQ_DIST_PORT=$EMULATOR_PORT_NODES
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
# RabbitMQ would start a port mapper itself, and leave it behind.
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" &
mapper=$!
trap 'kill "$mapper"' EXIT
until (exec 3<>"/dev/tcp/127.0.0.1/$ERL_EPMD_PORT") 2>/dev/null; do sleep 0.1; done
"$EMULATOR_RABBITMQ"
