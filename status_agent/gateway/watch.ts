// Whether a mounted directory has changed: polled, since inotify says nothing of a ConfigMap on some node kernels.

/**
 * A text that changes with the directory's content. The kubelet swaps the link `..data`, which is then all that has to
 * be looked at; elsewhere names, sizes and times of the files are. "" when the directory can't be read.
 *
 * Not async on purpose: it is asked each second, of a few files in memory, and each asynchronous call would keep a
 * thread with its own heap.
 */
export function fingerprint(directory: string): string {
  try {
    return Deno.readLinkSync(`${directory}/..data`);
  } catch {
    // No ConfigMap or Secret volume.
  }
  try {
    const parts: string[] = [];
    for (const { name } of Deno.readDirSync(directory)) {
      const { size, mtime } = Deno.statSync(`${directory}/${name}`);
      parts.push(`${name} ${size} ${mtime?.getTime()}`);
    }
    return parts.sort().join("\n");
  } catch {
    return "";
  }
}
