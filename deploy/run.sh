#!/usr/bin/env bash
# From a fresh Debian 12 to an answer: installs what is missing, builds, fetches the default model,
# serves it, streams one chat answer, and keeps serving until Ctrl-C.
#
#   deploy/run.sh [flags of `hydrant serve`]      e.g. deploy/run.sh --kv_cache_bytes=100MB
#
# What was installed, built or fetched before is not done again.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/deploy
hydrant="$build/hydrant"

fail() {
  echo "error: $*" >&2
  exit 1
}

# flag NAME DEFAULT ARGUMENTS...: the value of --NAME among the arguments, as --NAME=X or --NAME X,
# else that of the environment's HYDRANT_NAME, else the default.
flag() {
  local name=$1 environment="HYDRANT_${1^^}"
  local value="${!environment:-$2}"
  shift 2
  while (($#)); do
    case $1 in
      "--$name="*) value="${1#*=}" ;;
      "--$name") value="${2:-}" ;;
    esac
    shift
  done
  echo "$value"
}

# client_address LISTEN: how a client here reaches what listens on host:port, unix:PATH or off.
client_address() {
  case $1 in
    :* | 0.0.0.0:* | "[::]:"*) echo "127.0.0.1:${1##*:}" ;;
    *) echo "$1" ;;
  esac
}

# require_free_port LISTEN FLAG
require_free_port() {
  local address host
  address="$(client_address "$1")"
  if [[ $address == unix:* || $address == off ]]; then
    return
  fi
  host="${address%:*}"
  if (exec 3<>"/dev/tcp/${host//[\[\]]/}/${address##*:}") 2>/dev/null; then
    fail "$address is taken by another program; stop it, or choose another port with --$2=HOST:PORT"
  fi
}

# The health service asked with bare HTTP/2: an empty HealthCheckRequest in gRPC's framing; the
# answer's last two bytes are field 1, status: 08 01 is SERVING.
serving() {
  local answer url="http://$1" socket=()
  if [[ $1 == unix:* ]]; then
    url=http://localhost
    socket=(--unix-socket "${1#unix:}")
  fi
  answer="$(printf '\0\0\0\0\0' |
    curl --silent --max-time 5 --noproxy '*' --http2-prior-knowledge --data-binary @- \
      -H 'content-type: application/grpc' -H 'te: trailers' \
      "${socket[@]}" "$url/grpc.health.v1.Health/Check" | od -An -tx1 | tr -d ' \n')" || return 1
  [[ $answer == 00000000020801 ]]
}

listen="$(flag listen 0.0.0.0:50051 "$@")"
metrics_listen="$(flag metrics_listen 0.0.0.0:9400 "$@")"
model="$(flag model "" "$@")"
require_free_port "$listen" listen
require_free_port "$metrics_listen" metrics_listen

deploy/install_packages.sh build

if [[ ! -f $build/build.ninja ]]; then
  echo "==> configuring"
  cmake --preset release -B "$build" -D HYDRANT_SERVER=ON -D HYDRANT_TESTS=OFF ||
    fail "configuring failed; see CMake's messages above"
fi
echo "==> building (minutes the first time)"
cmake --build "$build" --target hydrant || fail "the build failed; see the compiler's messages above"

arguments=("$@")
if [[ -z $model ]]; then
  model="$(deploy/fetch_model.sh)"
  arguments+=("--model=$model")
fi

# In a session of its own, so that Ctrl-C reaches it once, from here, and it drains.
echo "==> starting the server"
setsid "$hydrant" serve "${arguments[@]}" &
server=$!
stopping=
stop() {
  stopping=1
  kill -TERM "$server" 2>/dev/null || true
}
trap stop INT TERM HUP EXIT

# Waits for the server's end and exits as it did.
wait_for_end() {
  local status=0
  while kill -0 "$server" 2>/dev/null; do
    wait "$server" && status=0 || status=$?
  done
  trap - EXIT
  if [[ -z $stopping ]]; then
    fail "the server ended with status $status; see its messages above"
  fi
  exit "$status"
}

address="$(client_address "$listen")"
until serving "$address"; do
  kill -0 "$server" 2>/dev/null || wait_for_end
  sleep 0.2
done

question="What is the capital of France?"
echo "==> $question"
"$hydrant" generate "--server=$address" --temperature=0 --chat "$question" || {
  [[ -n $stopping ]] && wait_for_end
  fail "the server is up, but did not answer; see the messages above"
}

cat <<END

==> serving on $address until Ctrl-C
  Terminal   $hydrant generate --server=$address --temperature=0 --chat "Why is the sky blue?"
  Python     python3 -m venv build/client && build/client/bin/pip install grpcio grpcio-reflection
             build/client/bin/python deploy/call.py --server=$address "Why is the sky blue?"
  Metrics    curl http://$(client_address "$metrics_listen")/metrics
END
wait_for_end
