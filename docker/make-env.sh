#!/bin/sh
# Writes the secrets of docker-compose.yaml into .env: made here, known to nobody else. What .env says already is kept,
# so it can be run again after an update that needs one more. Needs only sh and /dev/urandom.
set -eu
cd "$(dirname "$0")/.."
file=${1:-.env}
umask 077
touch "$file"
chmod 600 "$file"

secret() { # secret BYTES: URL-safe base64
  head -c "$1" /dev/urandom | base64 | tr -d '\n' | tr '+/' '-_'
}

add() { # add NAME VALUE: unless the file has it
  grep -q "^$1=" "$file" && return 0
  # A file that a person edited may end without a newline.
  [ ! -s "$file" ] || [ -z "$(tail -c 1 "$file")" ] || echo >>"$file"
  printf '%s=%s\n' "$1" "$2" >>"$file"
  echo "$file: made $1"
}

add COMPOSE_PROJECT_NAME rayflight
add POSTGRES_PASSWORD "$(secret 24)"
add FERNET_KEY "$(secret 32)"
add JWT_SECRET "$(secret 66)"
add API_SECRET_KEY "$(secret 48)"
add AIRFLOW_ADMIN_PASSWORD "$(secret 18)"
add K3S_TOKEN "$(secret 24)"
echo "$file is complete; sign in as admin with its AIRFLOW_ADMIN_PASSWORD"
