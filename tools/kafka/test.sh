#!/usr/bin/env bash
# Tests everything that needs a Kafka broker: sink, `ship`, distributed building, readers of others.
# Installs a Java runtime and Maven where they are missing; the first run compiles librdkafka.
#
#   tools/kafka/test.sh --test sink                             one test file
#   tools/kafka/test.sh storm 600                               both storms for ten minutes each;
#                                                               by default a minute each
#   tools/kafka/test.sh --prepare                               installs, and tests nothing
set -euo pipefail
cd "$(dirname "$0")/../.."

need_packages=()
command -v java >/dev/null || need_packages+=(default-jre-headless)
command -v mvn >/dev/null || need_packages+=(maven)
command -v openssl >/dev/null || need_packages+=(openssl)
[ -e /usr/include/openssl/ssl.h ] || need_packages+=(libssl-dev)
if [ ${#need_packages[@]} -gt 0 ]; then
  elevate=""
  [ "$(id -u)" = 0 ] || elevate="sudo"
  $elevate apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $elevate apt-get install -y -qq "${need_packages[@]}" >/dev/null
fi
venv="$PWD/target/venv"
if ! "$venv/bin/python" -c 'import pyarrow, confluent_kafka, streaming_data_types' 2>/dev/null; then
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check pyarrow confluent-kafka \
    ess-streaming-data-types
fi
export FLUXLINE_PYTHON="$venv/bin/python"
tools/kafka/broker.sh jars
[ "${1:-}" != --prepare ] || exit 0
if [ "${1:-}" = storm ]; then
  # SEED=random takes another seed, which the tests print.
  export SECONDS_OF_STORM="${2:-60}"
  cargo test --locked -p fluxline-kafka --features tls --test cluster -- --nocapture storm
  cargo test --locked -p fluxline-cli --features kafka-tls --test storm -- --nocapture
  exit 0
fi
cargo test --locked -p fluxline-kafka --features tls "$@"
# Nodes of a cluster as processes, unless the arguments name other tests.
[ $# -gt 0 ] || cargo test --locked -p fluxline-cli --features kafka-tls --test cluster --test storm
