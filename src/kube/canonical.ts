/** JSON with sorted keys: two values that mean the same have the same text. */
export function canonical(value: unknown): string {
  const text = JSON.stringify(
    value,
    (_key, inner: unknown) =>
      inner !== null && typeof inner === "object" && !Array.isArray(inner)
        ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
        : inner,
  );
  return text ?? "";
}
