/** A value of a VICI message. Bytes are for key material and certificates; what charon sends is decoded to strings. */
export type ViciValue = string | Uint8Array | readonly (string | Uint8Array)[] | ViciSection;

/** A section: keys in the order of the wire. */
export type ViciSection = ReadonlyMap<string, ViciValue>;
