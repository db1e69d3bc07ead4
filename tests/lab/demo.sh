# ./run demo: a gateway between real peers, from nothing; sourced by ./run.

demo() {
  local code=0
  announce
  [ $KEEP = 1 ] || trap 'lab_down all; lock_release' EXIT
  prepare all || return 1
  step "executables" deno task compile || return 1
  step "images" "$LAB/images.sh" --no-import || return 1
  lab_up all || return 1
  step "images into the nodes" "$LAB/images.sh" || return 1
  deno run -A --quiet tests/lab/demo.ts || code=$?
  if [ $KEEP = 1 ]; then
    say "It stays up. Set up your shell (kubectl, helm, deno): . tests/lab/env.sh; export KUBECONFIG PATH   End it: ./run down"
  else
    say "Taking it down again; ./run demo --keep leaves it up."
  fi
  return $code
}
