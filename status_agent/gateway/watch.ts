// Whether a mounted directory has changed: polled, since inotify says nothing of a ConfigMap on some node kernels.

/**
 * A text that changes with the directory's content. The kubelet swaps the link `..data`, which is then all that has to
 * be looked at; elsewhere names, sizes and times of the files are. "" when the directory can't be read.
 */
export async function fingerprint(directory: string): Promise<string> {
  try {
    return await Deno.readLink(`${directory}/..data`);
  } catch {
    // No ConfigMap or Secret volume.
  }
  try {
    const parts: string[] = [];
    for await (const { name } of Deno.readDir(directory)) {
      const { size, mtime } = await Deno.stat(`${directory}/${name}`);
      parts.push(`${name} ${size} ${mtime?.getTime()}`);
    }
    return parts.sort().join("\n");
  } catch {
    return "";
  }
}
