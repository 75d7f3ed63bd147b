/** Options of TLS: of a listener, and of connections to servers. All files are PEM. */
import { filePath, flag, hostName, oneOf, optional, section } from "../values.js";

const ofListener = {
  cert: filePath().describe("The certificate, followed by intermediate certificates."),
  key: filePath().describe("The private key of the certificate, without a passphrase."),
  ca: optional(filePath(), "none").describe("CA certificates that sign the certificates of clients."),
  client_auth: oneOf("none", "optional", "required")
    .default("none")
    .describe("Whether clients present a certificate of `ca`."),
};

interface ClientAuth {
  ca?: string | undefined;
  client_auth: string;
}

interface CustomIssues {
  addIssue(issue: { code: "custom"; path: string[]; message: string }): void;
}

function requireCa({ ca, client_auth }: ClientAuth, { addIssue }: CustomIssues): void {
  if (client_auth === "none" || ca !== undefined) return;
  addIssue({ code: "custom", path: ["ca"], message: `is required with client_auth: ${client_auth}` });
}

export const listenerTls = section(ofListener).superRefine(requireCa);

export const gatewayTls = section({
  ...ofListener,
  http2: flag().default(true).describe("Offer HTTP/2 to clients besides HTTP/1.1."),
}).superRefine(requireCa);

/** @param otherwise the name that is expected without the option */
export const clientTls = (otherwise: string) =>
  section({
    ca: optional(filePath(), "the CAs of Node.js").describe("CA certificates that sign the server's certificate."),
    cert: optional(filePath(), "none").describe("Own certificate, if the server requires one."),
    key: optional(filePath(), "none").describe("The private key of `cert`, without a passphrase."),
    name: optional(hostName(), otherwise).describe("The host name that the server's certificate must have."),
  }).superRefine(({ cert, key }, { addIssue }) => {
    if ((cert === undefined) === (key === undefined)) return;
    const missing = cert === undefined ? "cert" : "key";
    addIssue({ code: "custom", path: [missing], message: "is missing: cert and key are set together" });
  });
