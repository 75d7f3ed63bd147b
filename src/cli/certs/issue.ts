/** Issues X.509 certificates (ECDSA P-256) for evaluation. node:crypto makes keys and signatures but cannot write certificates. */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from "node:crypto";
import { isIP } from "node:net";
import { bits, explicit, implicit, integer, octets, oid, sequence, set, time, utf8, yes } from "./der.js";

export interface Authority {
  name: string;
  /** PEM. */
  cert: string;
  key: string;
}

export interface Issued {
  /** PEM. */
  cert: string;
  key: string;
}

export interface CertificateOptions {
  /** The common name; for a data plane its identity. */
  name: string;
  /** Host names and addresses. */
  hosts?: readonly string[];
  from?: Date;
  until: Date;
}

const ECDSA_SHA256 = "1.2.840.10045.4.3.2";
const COMMON_NAME = "2.5.4.3";
const BASIC_CONSTRAINTS = "2.5.29.19";
const KEY_USAGE = "2.5.29.15";
const EXTENDED_KEY_USAGE = "2.5.29.37";
const ALTERNATIVE_NAMES = "2.5.29.17";
const SUBJECT_KEY = "2.5.29.14";
const AUTHORITY_KEY = "2.5.29.35";
const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
/** Clocks of other machines may be behind. */
const EARLIER_MS = 3_600_000;

export function createAuthority(options: Omit<CertificateOptions, "hosts">): Authority {
  const { privateKey, publicKey } = newKeys();
  const signing = bits(Buffer.from([0b0000_0110]), 1);
  const extensions = [
    extension(BASIC_CONSTRAINTS, sequence(yes()), true),
    extension(KEY_USAGE, signing, true),
    extension(SUBJECT_KEY, octets(keyId(publicKey))),
  ];
  const cert = certificate({ options, issuer: options.name, publicKey, extensions }, privateKey);
  return { name: options.name, cert, key: pem(privateKey) };
}

/** A certificate for a server and for a client. */
export function issue(authority: Authority, options: CertificateOptions): Issued {
  const { privateKey, publicKey } = newKeys();
  const signer = createPrivateKey(authority.key);
  const { hosts = [] } = options;
  const extensions = [
    extension(BASIC_CONSTRAINTS, sequence(), true),
    extension(KEY_USAGE, bits(Buffer.from([0b1000_0000]), 7), true),
    extension(EXTENDED_KEY_USAGE, sequence(oid(SERVER_AUTH), oid(CLIENT_AUTH))),
    extension(SUBJECT_KEY, octets(keyId(publicKey))),
    extension(AUTHORITY_KEY, sequence(implicit(0, keyId(createPublicKey(authority.key))))),
    ...(hosts.length === 0 ? [] : [extension(ALTERNATIVE_NAMES, sequence(...hosts.map(alternativeName)))]),
  ];
  const cert = certificate({ options, issuer: authority.name, publicKey, extensions }, signer);
  return { cert, key: pem(privateKey) };
}

function newKeys() {
  return generateKeyPairSync("ec", { namedCurve: "P-256" });
}

interface Contents {
  options: CertificateOptions;
  issuer: string;
  publicKey: KeyObject;
  extensions: Buffer[];
}

function certificate({ options, issuer, publicKey, extensions }: Contents, signer: KeyObject): string {
  const { name, from = new Date(Date.now() - EARLIER_MS), until } = options;
  const algorithm = sequence(oid(ECDSA_SHA256));
  const signed = sequence(
    explicit(0, integer(Buffer.from([2]))),
    integer(serialNumber()),
    algorithm,
    commonName(issuer),
    sequence(time(from), time(until)),
    commonName(name),
    publicKey.export({ type: "spki", format: "der" }),
    explicit(3, sequence(...extensions)),
  );
  const signature = sign("sha256", signed, signer);
  const der = sequence(signed, algorithm, bits(signature)).toString("base64");
  return `-----BEGIN CERTIFICATE-----\n${der.replace(/.{1,64}/g, "$&\n")}-----END CERTIFICATE-----\n`;
}

/** Positive and not 0 at the start, so that it is in its shortest form. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = (bytes[0]! & 0x7f) | 0x40;
  return bytes;
}

function commonName(name: string): Buffer {
  return sequence(set(sequence(oid(COMMON_NAME), utf8(name))));
}

function extension(id: string, value: Buffer, critical = false): Buffer {
  return sequence(oid(id), ...(critical ? [yes()] : []), octets(value));
}

function alternativeName(host: string): Buffer {
  const version = isIP(host);
  if (version === 0) return implicit(2, Buffer.from(host, "ascii"));
  return implicit(7, version === 4 ? Buffer.from(host.split(".").map(Number)) : ipv6Bytes(host));
}

function ipv6Bytes(address: string): Buffer {
  // A URL has it in canonical form: the last 32 bits are not written as an IPv4 address.
  const [left = [], right = []] = new URL(`http://[${address}]`).hostname
    .slice(1, -1)
    .split("::")
    .map((groups) => groups.split(":").filter(Boolean));
  const groups = [...left, ...Array.from({ length: 8 - left.length - right.length }, () => "0"), ...right];
  return Buffer.from(groups.map((group) => group.padStart(4, "0")).join(""), "hex");
}

function keyId(key: KeyObject): Buffer {
  return createHash("sha1")
    .update(key.export({ type: "spki", format: "der" }))
    .digest();
}

function pem(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }) as string;
}
