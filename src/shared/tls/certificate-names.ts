/** The names in the certificate that a client has presented, if it was verified. */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

const known = new WeakMap<Socket, readonly string[]>();
const NONE: readonly string[] = [];

/** The common name and the DNS names. Empty without TLS or a valid certificate. */
export function certificateNames(socket: Socket): readonly string[] {
  if (!("encrypted" in socket)) return NONE;
  const before = known.get(socket);
  if (before !== undefined) return before;
  const names = namesOf(socket as TLSSocket);
  known.set(socket, names);
  return names;
}

function namesOf(socket: TLSSocket): readonly string[] {
  if (!socket.authorized) return NONE;
  const { subject, subjectaltname = "" } = socket.getPeerCertificate();
  const common: unknown = subject?.CN;
  // Node quotes names that contain a separator. No plane has such a name.
  const others = subjectaltname.includes('"') ? [] : subjectaltname.split(", ");
  const dns = others.flatMap((entry) => (entry.startsWith("DNS:") ? [entry.slice(4)] : []));
  return [...(typeof common === "string" ? [common] : []), ...dns];
}
