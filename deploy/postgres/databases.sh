#!/bin/sh
# Run once, by the image, on a fresh volume: two owners, each with databases that the other cannot enter.
set -eu

psql --username "${POSTGRES_USER:-postgres}" --dbname postgres --set ON_ERROR_STOP=1 \
    --set store_password="$STORE_PASSWORD" --set temporal_password="$TEMPORAL_PASSWORD" <<'SQL'
CREATE ROLE roundturn LOGIN PASSWORD :'store_password';
CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';
CREATE DATABASE roundturn OWNER roundturn;
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;
REVOKE CONNECT ON DATABASE roundturn, temporal, temporal_visibility FROM PUBLIC;
SQL
