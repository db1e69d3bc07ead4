// How large a packet may be inside a tunnel, so that its ESP packet fits the wire.

/** Bytes that an ESP algorithm adds: RFC 4303, 4106, 3602, 4868, 7634. `block` is what the padding aligns to. */
interface Overhead {
  readonly iv: number;
  readonly block: number;
  readonly icv: number;
}

/** The least favourable of what strongSwan proposes: CBC with a 256-bit ICV. Used for proposals not known here. */
const WORST: Overhead = { iv: 16, block: 16, icv: 32 };

/** Outer IPv4 header, UDP header of NAT traversal (RFC 3948), SPI and sequence number. */
const OUTER_BYTES = 20 + 8 + 8;
/** Pad length and next header (RFC 4303 section 2). */
const TRAILER_BYTES = 2;

/** TCP and IPv4 headers without options. */
const TCP_IP_BYTES = 40;

/** The overhead of one `esp_proposals` entry, e.g. "aes256gcm16-ecp256" or "aes256-sha256". */
function overheadOf(proposal: string): Overhead {
  const words = proposal.toLowerCase().split("-");
  const aead = words.map((word) =>
    /^(?:aes(?:128|192|256)?(?:gcm|ccm)|camellia(?:128|192|256)?ccm)(\d*)$/.exec(word)
  )
    .find((match) => match !== null);
  // The ICV is named in bytes (8, 12, 16) or bits (64, 96, 128); 16 bytes when it is not named.
  if (aead) {
    const named = Number(aead[1] || 16);
    return { iv: 8, block: 4, icv: named > 16 ? named / 8 : named };
  }
  if (words.some((word) => /^chacha20poly1305(compat)?$/.test(word))) return { iv: 8, block: 4, icv: 16 };
  const icvs = [["sha512", 32], ["sha384", 24], ["sha256", 16], ["sha2_256", 16], ["sha1", 12], ["sha", 12], [
    "md5",
    12,
  ], ["aesxcbc", 12]] as const;
  const icv = icvs.find(([word]) => words.includes(word))?.[1];
  const cipher = words.some((word) => /^(aes|aes128|aes192|aes256|camellia(128|192|256)?)$/.test(word));
  return icv === undefined || !cipher ? WORST : { iv: 16, block: 16, icv };
}

/** Bytes on the wire of an inner packet of `innerBytes` under this algorithm, in UDP-encapsulated tunnel mode over IPv4. */
export function outerBytes(innerBytes: number, proposal: string): number {
  const { iv, block, icv } = overheadOf(proposal);
  return OUTER_BYTES + iv + Math.ceil((innerBytes + TRAILER_BYTES) / block) * block + icv;
}

/**
 * The largest inner packet, in bytes, whose ESP packet fits `transportMtu` under each of the proposals; the least
 * favourable one counts, because the peer chooses. UDP encapsulation is always reckoned with: behind a floating IP it
 * is always on.
 */
export function tunnelMtu(transportMtu: number, proposals: readonly string[]): number {
  const sizes = (proposals.length ? proposals : ["default"]).map((proposal) => {
    const { iv, block, icv } = overheadOf(proposal);
    const room = transportMtu - OUTER_BYTES - iv - icv;
    return Math.floor(room / block) * block - TRAILER_BYTES;
  });
  return Math.max(576, Math.min(...sizes));
}

/** The TCP MSS that fits `mtu`, both in bytes (IPv4 without options). */
export function mssOf(mtu: number): number {
  return mtu - TCP_IP_BYTES;
}
