#!/bin/sh
# Makes the keys and certificates of this folder anew: an authority, a server's and a client's certificate from it,
# and an authority that nobody trusts. They guard nothing: they are for tests on loopback, and valid for a century.
set -eu
cd "$(dirname "$0")"

authority() { # NAME SUBJECT
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj "/CN=$2" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout "$1.key" -out "$1.crt" 2>/dev/null
}

signed() { # NAME SUBJECT USE ALTERNATIVE-NAMES
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" \
    -keyout "$1.key" -out "$1.csr" 2>/dev/null
  printf 'extendedKeyUsage=%s\nsubjectAltName=%s\n' "$3" "$4" > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA authority.crt -CAkey authority.key -CAcreateserial -days 36500 \
    -extfile "$1.ext" -out "$1.crt" 2>/dev/null
  rm "$1.csr" "$1.ext"
}

authority authority "test authority"
authority stranger "some other authority"
signed server "test API server" serverAuth "IP:127.0.0.1,DNS:localhost"
signed named "test API server by name" serverAuth "DNS:kubernetes.default.svc"
signed client "test client" clientAuth "DNS:client"
rm -f authority.key stranger.key ./*.srl
