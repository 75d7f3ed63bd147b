/** TLS of connections to the services. The files are read in the master, so that only root needs to read the key. */
import { fail, io, type Socket, ssl } from "./ngx.js";
import { nginx } from "./state.js";

/** Reads the own certificate, if there is one. Ends the start or reload of nginx if it cannot be used. */
export function readClientCertificate(): void {
  const { certificate, key } = nginx.options.serviceTls;
  if (certificate === "") return;
  const [chain, wrongChain] = ssl.parse_pem_cert(contentOf(certificate));
  if (chain === undefined) fail(`tollgate: ${certificate}: ${wrongChain ?? ""}`);
  const [parsed, wrongKey] = ssl.parse_pem_priv_key(contentOf(key));
  if (parsed === undefined) fail(`tollgate: ${key}: ${wrongKey ?? ""}`);
  nginx.clientCertificate = chain;
  nginx.clientKey = parsed;
}

function contentOf(path: string): string {
  const [file, problem] = io.open(path, "rb");
  if (file === undefined) return fail(`tollgate: ${problem ?? path}`);
  const text = file.read("*a");
  file.close();
  return text;
}

/** Empty, or why the connection cannot be used. */
export function secure(socket: Socket, host: string): string {
  const { on, name } = nginx.options.serviceTls;
  if (!on) return "";
  if (nginx.clientCertificate !== undefined) {
    const [set, refused] = socket.setclientcert(nginx.clientCertificate, nginx.clientKey);
    if (set === undefined) return refused ?? "client certificate";
  }
  const [done, problem] = socket.sslhandshake(false, name === "" ? host : name, true);
  // "timeout" is a timeout of the call.
  if (done === undefined) return problem ?? "TLS";
  return "";
}
