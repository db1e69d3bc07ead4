# Certificates and kubeconfigs of the cluster; sourced by up.sh. ECDSA, some 20 ms each.
P=$K8S_RUN/pki

pki_ca() {
  [ -f "$P/ca.crt" ] && return
  openssl ecparam -name prime256v1 -genkey -noout -out "$P/ca.key"
  openssl req -x509 -new -key "$P/ca.key" -sha256 -days 3650 -subj /CN=lab-ca -out "$P/ca.crt" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
  openssl genrsa -out "$P/sa.key" 2048 2> /dev/null
  openssl rsa -in "$P/sa.key" -pubout -out "$P/sa.pub" 2> /dev/null
}

# pki_cert NAME SUBJECT [SUBJECT_ALT_NAMES]
pki_cert() {
  [ -f "$P/$1.crt" ] && return
  openssl ecparam -name prime256v1 -genkey -noout -out "$P/$1.key"
  {
    echo "keyUsage=critical,digitalSignature,keyEncipherment"
    echo "extendedKeyUsage=clientAuth,serverAuth"
    [ -z "${3:-}" ] || echo "subjectAltName=$3"
  } > "$P/$1.ext"
  openssl req -new -key "$P/$1.key" -subj "$2" |
    openssl x509 -req -CA "$P/ca.crt" -CAkey "$P/ca.key" -CAcreateserial -days 3650 -sha256 -extfile "$P/$1.ext" -out "$P/$1.crt" 2> /dev/null
}

# pki_kubeconfig NAME: for the certificate of that name. The data is inlined, so that one file is enough elsewhere.
pki_kubeconfig() {
  cat > "$K8S_RUN/kc/$1.kubeconfig" <<Y
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "$K8S_API", certificate-authority-data: $(base64 -w0 "$P/ca.crt")}}]
users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$P/$1.crt"), client-key-data: $(base64 -w0 "$P/$1.key")}}]
contexts: [{name: lab, context: {cluster: lab, user: $1}}]
current-context: lab
Y
  chmod 600 "$K8S_RUN/kc/$1.kubeconfig"
}
