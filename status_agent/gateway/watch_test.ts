import assert from "node:assert/strict";
import { fingerprint } from "./watch.ts";

Deno.test("fingerprint() changes when the kubelet swaps ..data, and not when it does not", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await Deno.symlink("..v1", `${directory}/..data`);
    const before = fingerprint(directory);
    assert.equal(fingerprint(directory), before);
    await Deno.symlink("..v2", `${directory}/..data_tmp`);
    await Deno.rename(`${directory}/..data_tmp`, `${directory}/..data`);
    assert.notEqual(fingerprint(directory), before);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("fingerprint() changes with the files of a plain directory, and is empty when there is none", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const before = fingerprint(directory);
    await Deno.writeTextFile(`${directory}/psk`, "x");
    assert.notEqual(fingerprint(directory), before);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
  assert.equal(fingerprint(directory), "");
});
