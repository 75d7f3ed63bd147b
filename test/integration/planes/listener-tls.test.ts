/** Clients of nginx and Envoy with TLS: the certificate that they get, what they reject, and rotation under load. */
import { type ConnectionOptions, connect } from "node:tls";
import { Agent, request } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestAuthority, type TestAuthority } from "../../support/certificates.js";
import { describeEnvoy } from "../../support/envoy-binary.js";
import { startEnvoy } from "../../support/envoy-process.js";
import { type SmallBackend, startSmallBackend } from "../../support/gateway-process.js";
import { startNginx } from "../../support/nginx-process.js";
import { waitFor } from "../../support/wait-for.js";

interface Plane {
  port: number;
  reload(): Promise<void>;
  stop(): Promise<void>;
}

let backend: SmallBackend;
beforeAll(async () => {
  backend = await startSmallBackend();
});
afterAll(() => backend?.stop());

function suite(kind: "nginx" | "Envoy"): void {
  let authority: TestAuthority;
  let plane: Plane;
  beforeAll(async () => {
    authority = createTestAuthority();
    const { cert: certificate, key } = authority.issue("listener");
    const yaml = `
apps: { default: { guaranteed: 100000, burst: 100000, on_store_failure: open } }
upstreams: { backend: { targets: ["${backend.target}"] } }
routes: [{ path: /, upstream: backend }]
`;
    const options = { services: ["127.0.0.1:9"], tls: { certificate, key } };
    plane = kind === "nginx" ? await startNginx(yaml, options) : await startEnvoy(yaml, options);
  });
  afterAll(async () => {
    await plane?.stop();
    authority?.remove();
  });

  /** The serial number of the certificate, or why there is no connection. */
  function handshake(options: ConnectionOptions = {}): Promise<string> {
    return new Promise((resolve) => {
      const socket = connect({ host: "127.0.0.1", port: plane.port, ca: authority.pem, ...options });
      socket.on("error", (error) => resolve(error.message));
      socket.on("secureConnect", () => {
        resolve(`serial ${socket.getPeerCertificate().serialNumber}`);
        socket.destroy();
      });
    });
  }

  it("is accepted by clients that know the CA and the name, with TLS 1.2 and 1.3 only", async () => {
    for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const)
      expect(await handshake({ maxVersion })).toMatch(/^serial /);
    expect(await handshake({ minVersion: "TLSv1.1", maxVersion: "TLSv1.1" })).toMatch(/protocol|version/i);
    const other = createTestAuthority("another CA");
    expect(await handshake({ ca: other.pem })).toMatch(/verify|self-signed|issuer/i);
    other.remove();
    expect(await handshake({ servername: "other.example" })).toMatch(/other\.example/);
  });

  it("rotates its certificate under load without a failed request; an expired one is rejected by clients", async () => {
    const before = await handshake();
    let running = true;
    let done = 0;
    const failed: unknown[] = [];
    const load = async () => {
      const dispatcher = new Agent({ connect: { ca: authority.pem, maxCachedSessions: 0 }, pipelining: 0 });
      while (running) {
        try {
          const { statusCode, body } = await request(`https://127.0.0.1:${plane.port}/`, { dispatcher });
          await body.dump();
          if (statusCode !== 200) failed.push(statusCode);
          done++;
        } catch (error) {
          failed.push(error);
        }
      }
      await dispatcher.destroy();
    };
    const loads = [load(), load()];
    const more = async () => {
      const count = done;
      await waitFor("more requests", () => done > count + 20);
    };
    await more();
    authority.issue("listener");
    // Envoy follows the files.
    if (kind === "nginx") await plane.reload();
    await waitFor(
      "the new certificate",
      async () => /^serial /.test(await handshake()) && (await handshake()) !== before,
    );
    await more();
    running = false;
    await Promise.all(loads);
    expect(failed).toEqual([]);
    authority.expired("listener");
    if (kind === "nginx") await plane.reload();
    await waitFor("clients to reject it", async () => /expired/.test(await handshake()));
  });
}

describe("the listener of nginx", () => suite("nginx"));
describeEnvoy("the listener of Envoy", () => suite("Envoy"));
