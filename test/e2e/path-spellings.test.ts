/** Whatever spelling of a path or host reaches a limited resource of a backend was counted by its limit, on every plane. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLimiter, type LibraryLimiter, limit } from "../../src/index.js";
import { describeEnvoy } from "../support/envoy-binary.js";
import { type EnvoyProcess, startEnvoy } from "../support/envoy-process.js";
import { type GatewayProcess, startGateway } from "../support/gateway-process.js";
import { type NginxProcess, startNginx } from "../support/nginx-process.js";
import { pathSpellings } from "../support/path-spellings.js";
import { freePort } from "../support/ports.js";
import { sendRaw } from "../support/raw-requests.js";
import {
  startBackend,
  startStaticNginx,
  type UnderstandingBackend,
  understandingApp,
} from "../support/understanding-backends.js";

const SPELLINGS = pathSpellings(29, 3_000);
const HOSTS = ["node.test", "static.test"];

/** Everything that a limit matches is denied, so a limited resource that responds was reached past its limit. */
const DENIED = "key: [method], deny: [GET], rate: 1/s";
const LIMITS = `
limits:
  - { name: admin, ${DENIED}, path_case: insensitive, match: { path: [/admin/] } }
  - { name: login, ${DENIED}, path_case: insensitive, match: { path: [/login] } }
  - { name: cafe, ${DENIED}, path_case: insensitive, match: { path: [/caf%C3%A9] } }
  - { name: private, ${DENIED} }
  - { name: vip, ${DENIED}, match: { route: [vip.test/] } }
`;

let node: UnderstandingBackend;
let files: UnderstandingBackend;
let secret: UnderstandingBackend;

const configuration = (more: string) => `
store: embedded
workers: 1
apps: { default: { guaranteed: 1000000 } }
cluster: { capacity: 10000000, rate: 5000000 }
log: { level: silent }
upstreams:
  node: { targets: ["${node.target}"] }
  files: { targets: ["${files.target}"] }
  secret: { targets: ["${secret.target}"] }
routes:
  - { path: /, upstream: node }
  - { host: vip.test, path: /, upstream: node }
  - { host: node.test, path: /, upstream: node }
  - { host: node.test, path: /private/, upstream: secret, limits: [private] }
  - { host: static.test, path: /, upstream: files }
  - { host: static.test, path: /private/, upstream: secret, limits: [private] }
${LIMITS}${more}`;

const requestFor = (host: string, spelling: string) =>
  `GET ${spelling.replaceAll("HOST", host)} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;

const HOST_SPELLINGS = [
  ...["vip.test", "VIP.test", "vip.test.", "vip.test:80", "vip.test.:80", "Vip.Test.:8080", "vip.test:", "vip.test.."],
].map((host) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);

const TWO_HOSTS = [
  "GET http://node.test/ HTTP/1.1\r\nHost: vip.test\r\n\r\n",
  "GET http://vip.test/ HTTP/1.1\r\nHost: node.test\r\n\r\n",
  "GET http://vip.test./ HTTP/1.1\r\nHost: node.test\r\n\r\n",
  "GET http://node.test:80/ HTTP/1.1\r\nHost: vip.test:80\r\n\r\n",
];

const allRequests = () => [
  ...HOSTS.flatMap((host) => SPELLINGS.map((spelling) => requestFor(host, spelling))),
  ...HOST_SPELLINGS,
  ...TWO_HOSTS,
];

/** Requests that reached a limited resource, with what the backend says. */
async function leaks(port: number, requests: string[]): Promise<string[]> {
  const replies = await sendRaw(port, requests);
  return replies.flatMap(({ head }, i) => {
    const [, resources = ""] = /\r\nx-resources: *([^\r]*)/i.exec(head) ?? [];
    return resources === "" ? [] : [`${requests[i]!.split("\r\n", 2).join(" ")}: ${resources}`];
  });
}

/** Otherwise a plane that rejects everything would pass. */
async function expectServed(port: number): Promise<void> {
  const targets = ["/", "/public/x", "/a/b.c?d=//..;/%2f", "/a%20b", "/.well-known/x", "/x/~y!$&'()*+,=:@-._"];
  const requests = HOSTS.flatMap((host) => targets.map((target) => requestFor(host, target)));
  expect((await sendRaw(port, requests)).map(({ status }) => status)).toEqual(requests.map(() => 200));
}

async function expectNoLeak(port: number, requests: string[]): Promise<void> {
  await expectServed(port);
  expect(await leaks(port, requests)).toEqual([]);
}

beforeAll(async () => {
  node = await startBackend(understandingApp());
  files = await startStaticNginx();
  secret = await startBackend((_request, response) => {
    response.setHeader("X-Resources", "route:private");
    response.end("ok");
  });
});

afterAll(async () => {
  await node?.stop();
  await files?.stop();
  await secret?.stop();
});

describe.each([
  { name: "with the default", more: "", only: / / },
  { name: "with encoded slashes", more: "request_limits: { encoded_slashes: keep }", only: /%(2f|5c)/i },
])("$name, no spelling of a path or host avoids a limit", ({ more, only }) => {
  const requests = allRequests().filter((request) => only.test(request));
  let gateway: GatewayProcess;
  let listen: string;
  let yaml: string;

  beforeAll(async () => {
    listen = `127.0.0.1:${await freePort()}`;
    yaml = `${configuration(more)}\nenvoy: { listen: "${listen}" }`;
    gateway = await startGateway(yaml);
  });
  afterAll(() => gateway?.stop());

  const services = () => [gateway.controlUrl.replace("http://", "")];

  it("through the Node gateway", () => expectNoLeak(Number(new URL(gateway.url).port), requests));

  it("through nginx", async () => {
    const nginx: NginxProcess = await startNginx(yaml, { services: services() });
    try {
      await expectNoLeak(nginx.port, requests);
    } finally {
      await nginx.stop();
    }
  });

  describeEnvoy("Envoy", () => {
    it("through Envoy", async () => {
      // By default, Envoy waits a second before it closes the connection of a rejected request.
      const edit = (text: string) =>
        text.replace(/^( *)stat_prefix: "tollgate"$/m, '$&\n$1delayed_close_timeout: "0.02s"');
      const envoy: EnvoyProcess = await startEnvoy(yaml, {
        services: services(),
        workers: 1,
        edit,
      });
      try {
        await expectNoLeak(envoy.port, requests);
      } finally {
        await envoy.stop();
      }
    });
  });
});

describe("no spelling of a path avoids a limit of the library", () => {
  let limiter: LibraryLimiter;
  let backend: UnderstandingBackend;

  beforeAll(async () => {
    const denied = { key: ["method"], deny: ["GET"], rate: "1/s", pathCase: "insensitive" as const };
    limiter = await createLimiter({
      apps: { default: { guaranteed: 1_000_000 } },
      cluster: { capacity: 10_000_000, rate: 5_000_000 },
      limits: [
        { name: "admin", ...denied, match: { path: ["/admin/"] } },
        { name: "login", ...denied, match: { path: ["/login"] } },
        { name: "cafe", ...denied, match: { path: ["/caf%C3%A9"] } },
      ],
    });
    backend = await startBackend(understandingApp([limit({ limiter, app: () => "default" })]));
  });
  afterAll(async () => {
    await backend?.stop();
    await limiter?.close();
  });

  it("in Express", async () => {
    const requests = SPELLINGS.map((spelling) => requestFor("node.test", spelling));
    expect(await leaks(backend.port, requests)).toEqual([]);
  });
});
