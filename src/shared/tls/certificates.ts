/** The certificates that a process presents, with their expiry. */
import { X509Certificate } from "node:crypto";

interface CertificateSource {
  current(): { cert?: string };
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

export function certificatesIn(text: string): X509Certificate[] {
  return (text.match(CERTIFICATE) ?? []).map((block) => new X509Certificate(block));
}

export type Certificates = ReturnType<typeof createCertificates>;

export function createCertificates() {
  const sources = new Map<CertificateSource, string>();

  return {
    /** @param name the path of the section in the configuration */
    add: (name: string, source: CertificateSource) => void sources.set(source, name),
    remove: (source: CertificateSource) => void sources.delete(source),
    /** By name: when the first certificate of its file expires, in Unix milliseconds. Sections without one are omitted. */
    expiries(): Map<string, number> {
      const found = new Map<string, number>();
      for (const [source, name] of sources) {
        const { cert = "" } = source.current();
        const times = certificatesIn(cert).map(({ validTo }) => Date.parse(validTo));
        if (times.length > 0) found.set(name, Math.min(found.get(name) ?? Number.POSITIVE_INFINITY, ...times));
      }
      return found;
    },
  };
}
