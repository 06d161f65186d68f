#!/usr/bin/env bash
# Certificates of the tests of TLS, in PEM. Their keys are public: nothing outside of tests may trust these authorities.
# Run in this folder to make all anew, with OpenSSL 3. They are valid for a hundred years, but for the expired one.
set -euo pipefail
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null; }
authority() {
  key "$1"
  openssl req -x509 -new -key "$1.key" -out "$1.pem" -days 36500 -subj "/CN=$1 of the tests" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign 2>/dev/null
}
# certificate NAME AUTHORITY ENDS PURPOSES [SUBJECT_NAME]
certificate() {
  key "$1"
  openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr" 2>/dev/null
  printf '%s\n' "basicConstraints=critical,CA:FALSE" "keyUsage=critical,digitalSignature" "extendedKeyUsage=$4" \
    "subjectAltName=DNS:${5:-train.example}" >"$1.ext"
  rm -rf made && mkdir made && : >made/index.txt && openssl rand -hex 16 >made/serial
  openssl ca -batch -in "$1.csr" -cert "$2.pem" -keyfile "$2.key" -out "$1.pem" -notext -outdir made -rand_serial -md sha256 \
    -startdate 20200101000000Z -enddate "$3" -extfile "$1.ext" \
    -config <(printf '[ca]\ndefault_ca=d\n[d]\ndatabase=made/index.txt\nserial=made/serial\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n') \
    2>/dev/null
  rm -rf made "$1.csr" "$1.ext"
}
authority authority
authority stranger
certificate rank authority 21200101000000Z serverAuth,clientAuth
certificate other_name authority 21200101000000Z serverAuth,clientAuth other.example
certificate expired authority 20210101000000Z serverAuth,clientAuth
certificate server_only authority 21200101000000Z serverAuth
certificate of_stranger stranger 21200101000000Z serverAuth,clientAuth
rm authority.key stranger.key
