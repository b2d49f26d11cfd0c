#!/usr/bin/env bash
# Tests everything that needs a Kafka broker: sink, `ship`, distributed building, readers of others.
# Installs a Java runtime and Maven where they are missing; the first run compiles librdkafka.
#
#   tools/kafka/test.sh --test sink                             one test file
#   SECONDS_OF_STORM=600 tools/kafka/test.sh --test cluster     the storm for ten minutes
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
cargo test --locked -p fluxline-kafka --features tls "$@"
