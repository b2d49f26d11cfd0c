#!/usr/bin/env bash
# An Apache Kafka broker on loopback, for tests and for the tutorial: one node in KRaft mode.
#
#   tools/kafka/broker.sh start FOLDER     starts it in a fresh folder, prints its address
#   tools/kafka/broker.sh start FOLDER tls the same, with TLS and the user daq (password: secret) at
#                                          its address; FOLDER/inner has the one for the tools
#   tools/kafka/broker.sh start FOLDER three
#                                          three brokers, in FOLDER/1 to FOLDER/3; the first one is
#                                          the controller, too
#                                          Each of them takes further settings of the broker from
#                                          FOLDER/more.properties, where that file exists
#   tools/kafka/broker.sh address FOLDER   prints its address
#   tools/kafka/broker.sh restart FOLDER   starts it again on its data and at its address
#   tools/kafka/broker.sh pid FOLDER       prints its process id
#   tools/kafka/broker.sh stop FOLDER      stops it by its process id; the data stays
#   tools/kafka/broker.sh tool NAME ...    runs a tool of Kafka, such as producer-perf-test
#   tools/kafka/broker.sh jars             fetches the jars alone
#
# It needs a Java runtime (17 or newer) and, the first time, Maven, which fetches the jars into
# target/kafka (46 files, 44 MB). Each broker has its own folder and free ports.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
jars="${FLUXLINE_KAFKA_JARS:-$here/../../target/kafka/jars}"

fail() { printf 'broker.sh: %s\n' "$*" >&2; exit 1; }

fetch_jars() {
  [ ! -e "$jars/complete" ] || return 0
  command -v mvn >/dev/null || fail "Maven is missing: install the package maven, or put Kafka's \
jars into $jars and make an empty file named complete beside them"
  mkdir -p "$jars"
  # Several tests may start at once: one of them fetches.
  exec 9>"$jars/lock"
  flock 9
  [ -e "$jars/complete" ] || mvn -q -B -Dstyle.color=never -f "$here/pom.xml" \
    dependency:copy-dependencies -DoutputDirectory="$jars" >&2
  touch "$jars/complete"
  flock -u 9
  exec 9>&-
}

# Most of these processes live for seconds: the quick compiler alone is enough. Measurements have
# other options.
read -r -a java_options <<<"${FLUXLINE_KAFKA_JAVA:--Xmx320m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC}"

java_of() { java "${java_options[@]}" -cp "$jars/*" "$@"; }

free_ports() {
  python3 - <<'PYTHON'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in sockets))
PYTHON
}

# A certificate authority in ca.pem, and a certificate of it for 127.0.0.1 in server.pem.
write_certificates() {
  local folder="$1"
  openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=lab CA" \
    -keyout "$folder/ca.key" -out "$folder/ca.pem" 2>>"$folder/log"
  openssl req -newkey rsa:2048 -nodes -subj "/CN=127.0.0.1" \
    -keyout "$folder/server.key" -out "$folder/server.csr" 2>>"$folder/log"
  openssl x509 -req -days 30 -in "$folder/server.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" \
    -CAcreateserial -extfile <(echo "subjectAltName=IP:127.0.0.1") \
    -out "$folder/server.crt" 2>>"$folder/log"
  cat "$folder/server.key" "$folder/server.crt" >"$folder/server.pem"
}

write_tls() {
  local folder="$1" port="$2" inner="$3"
  sed -i -e "s,^listeners=,listeners=SASL_SSL://127.0.0.1:$port\,," \
    -e "s,^advertised.listeners=,advertised.listeners=SASL_SSL://127.0.0.1:$port\,," \
    "$folder/server.properties"
  cat >>"$folder/server.properties" <<PROPERTIES
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location=$folder/server.pem
PROPERTIES
  echo "127.0.0.1:$inner" >"$folder/inner"
}

write_properties() {
  local folder="$1" port="$2" controller="$3"
  cat >"$folder/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs=$folder/data
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=8388608
PROPERTIES
  # The last one of two settings counts.
  [ ! -e "$folder/more.properties" ] || cat "$folder/more.properties" >>"$folder/server.properties"
}

# Makes a broker one of three; its own topics have three replicas, too.
write_membership() {
  local folder="$1" number="$2"
  sed -i -e "s,^node.id=.*,node.id=$number," -e "s,^\(.*replication.factor\)=1,\1=3," \
    -e "s,^\(.*min.isr\)=1,\1=2," "$folder/server.properties"
  [ "$number" = 1 ] || sed -i -e "s,^process.roles=.*,process.roles=broker," \
    -e "s/^listeners=\([^,]*\),.*/listeners=\1/" "$folder/server.properties"
}

is_alive() { kill -0 "$1" 2>/dev/null; }

# Formats the folder of the data; further arguments go to Kafka's formatter. Without them, a
# formatted folder has only the names of node and cluster, which are the same for all brokers here,
# so the first one is copied.
format_storage() {
  local folder="$1" formatted="$jars/../formatted"
  shift
  if [ $# -eq 0 ] && [ -e "$formatted/meta.properties" ]; then
    cp -r "$formatted" "$folder/data"
    return 0
  fi
  java_of kafka.tools.StorageTool format --config "$folder/server.properties" \
    --cluster-id fluxlinefluxlinefluxlw "$@" >>"$folder/log" 2>&1 ||
    { tail -3 "$folder/log" >&2; fail "the settings are wrong; see $folder/log"; }
  if [ $# -eq 0 ]; then
    cp -r "$folder/data" "$formatted.$$"
    # Another broker may have been first: its folder stays.
    mv -T "$formatted.$$" "$formatted" 2>/dev/null || rm -rf "$formatted.$$"
  fi
}

# Asks a broker for its group coordinator (Kafka's protocol, FindCoordinator version 1); ends with
# status 0 when it has one.
has_coordinator() {
  python3 - "$1" <<'PYTHON'
import socket, struct, sys
host, port = sys.argv[1].rsplit(":", 1)
body = struct.pack(">hhih", 10, 1, 7, -1) + struct.pack(">h", 1) + b"g" + b"\0"
try:
    with socket.create_connection((host, int(port)), timeout=5) as link:
        link.sendall(struct.pack(">i", len(body)) + body)
        answer = link.recv(4096)
    # Length, number of the request, time to wait, and the error.
    sys.exit(struct.unpack(">iiih", answer[:14])[3] != 0)
except (OSError, struct.error):
    sys.exit(1)
PYTHON
}

# Waits until the broker's group coordinator answers; fails when the process has ended.
await_coordinator() {
  local folder="$1" pid="$2" address
  address="$(cat "$folder/inner" 2>/dev/null || cat "$folder/address")"
  for _ in $(seq 600); do
    is_alive "$pid" || return 1
    ! has_coordinator "$address" || return 0
    sleep 0.2
  done
  return 1
}

launch() {
  spawn "$1"
  await_coordinator "$1" "$(cat "$1/pid")"
}

spawn() {
  local folder="$1"
  # Not in the caller's process group: Ctrl-C in a terminal stops the program, not its broker.
  setsid java "${java_options[@]}" -cp "$jars/*" kafka.Kafka "$folder/server.properties" \
    >>"$folder/log" 2>&1 </dev/null &
  echo "$!" >"$folder/pid"
}

start() {
  local folder="$1" security="${2:-}" ports port controller inner users=()
  [ ! -e "$folder/data" ] || fail "$folder has a broker's data: use restart, or another folder"
  mkdir -p "$folder"
  folder="$(cd "$folder" && pwd)"
  fetch_jars
  for _ in 1 2 3; do
    ports="$(free_ports)"
    read -r port controller inner <<<"$ports"
    if [ "$security" = tls ]; then
      write_certificates "$folder"
      write_properties "$folder" "$inner" "$controller"
      write_tls "$folder" "$port" "$inner"
      users=(--add-scram "SCRAM-SHA-512=[name=daq,password=secret]")
    else
      write_properties "$folder" "$port" "$controller"
    fi
    echo "127.0.0.1:$port" >"$folder/address"
    rm -rf "$folder/data"
    format_storage "$folder" "${users[@]}"
    if launch "$folder"; then cat "$folder/address"; return 0; fi
    stop "$folder"
  done
  tail -5 "$folder/log" >&2
  fail "the broker does not start; its log is $folder/log"
}

# The coordinators' topics need all three brokers, so these are started together.
start_three() {
  local folder="$1" port controller number addresses=()
  [ ! -e "$folder/1" ] || fail "$folder has brokers' data: use another folder"
  mkdir -p "$folder"
  folder="$(cd "$folder" && pwd)"
  fetch_jars
  for number in 1 2 3; do
    local own="$folder/$number" ports
    ports="$(free_ports)"
    read -r port _ _ <<<"$ports"
    [ "$number" != 1 ] || read -r _ controller _ <<<"$ports"
    mkdir "$own"
    write_properties "$own" "$port" "$controller"
    write_membership "$own" "$number"
    format_storage "$own" --ignore-formatted
    echo "127.0.0.1:$port" >"$own/address"
    addresses+=("127.0.0.1:$port")
    spawn "$own"
  done
  (IFS=,; echo "${addresses[*]}") >"$folder/address"
  for number in 1 2 3; do
    await_coordinator "$folder/$number" "$(cat "$folder/$number/pid")" ||
      { stop "$folder"; fail "broker $number does not start; its log is $folder/$number/log"; }
  done
  cat "$folder/address"
}

restart() {
  fetch_jars
  stop "$1"
  launch "$(cd "$1" && pwd)" || fail "the broker does not start again; its log is $1/log"
  cat "$1/address"
}

stop() {
  local pid number
  # The controller last: the others leave the cluster by it.
  for number in 3 2 1; do [ ! -d "$1/$number" ] || stop "$1/$number"; done
  [ -e "$1/pid" ] || return 0
  pid="$(cat "$1/pid")"
  # A number may belong to another process by now.
  if is_alive "$pid" && grep -qz kafka.Kafka "/proc/$pid/cmdline"; then
    kill "$pid"
    for _ in $(seq 100); do is_alive "$pid" || break; sleep 0.1; done
    ! is_alive "$pid" || kill -9 "$pid"
  fi
  rm -f "$1/pid"
}

tool() {
  fetch_jars
  local name="$1" class
  shift
  case "$name" in
    producer-perf-test) class=org.apache.kafka.tools.ProducerPerformance ;;
    consumer-perf-test) class=org.apache.kafka.tools.ConsumerPerformance ;;
    console-consumer) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
    topics) class=org.apache.kafka.tools.TopicCommand ;;
    configs) class=kafka.admin.ConfigCommand ;;
    acls) class=org.apache.kafka.tools.AclCommand ;;
    groups) class=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
    delete-records) class=org.apache.kafka.tools.DeleteRecordsCommand ;;
    *) fail "no tool \`$name\`: write producer-perf-test, consumer-perf-test, console-consumer, \
topics, configs, acls, groups or delete-records" ;;
  esac
  java_of -Dlog4j2.configurationFile="$here/tools-log4j2.properties" "$class" "$@"
}

verb="${1:-}"
[ "$verb" = jars ] || [ $# -ge 2 ] || fail "write: broker.sh start|address|restart|pid|stop FOLDER"
case "$verb" in
  start) if [ "${3:-}" = three ]; then start_three "$2"; else start "$2" "${3:-}"; fi ;;
  restart | stop) "$verb" "$2" ;;
  address | pid) cat "$2/$verb" ;;
  tool) shift; tool "$@" ;;
  jars) fetch_jars ;;
  *) fail "no verb \`$verb\`: write start, address, restart, pid, stop, tool or jars" ;;
esac
