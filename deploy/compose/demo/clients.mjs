/**
 * Opens WebSockets at the same time, in turn through the given addresses, and reports what became of each:
 * `node clients.mjs 10 ws://nginx-1:8080/ws/ ws://envoy-1:8080/ws/`. With HOLD_SECONDS=N they stay open for that long.
 */
import { randomBytes } from "node:crypto";
import { get } from "node:http";

const [count = "10", ...urls] = process.argv.slice(2);
const outcomes = await Promise.all(
  Array.from({ length: Number(count) }, (_, i) => connect(i + 1, urls[i % urls.length])),
);
const perPod = {};
for (const { pod } of outcomes.filter(({ pod }) => pod !== undefined)) perPod[pod] = (perPod[pod] ?? 0) + 1;
console.log(JSON.stringify({ clients: outcomes.length, open: outcomes.filter(({ pod }) => pod).length, perPod }));
await new Promise((resolve) => setTimeout(resolve, Number(process.env.HOLD_SECONDS ?? 0) * 1000));
for (const { socket } of outcomes) socket?.destroy();

function connect(number, url) {
  const { host, hostname, port, pathname } = new URL(url);
  const headers = {
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
  };
  return new Promise((resolve) => {
    const done = (text, outcome = {}) => {
      console.log(`${String(number).padStart(3)} ${host}  ${text}`);
      resolve(outcome);
    };
    const request = get({ hostname, port, path: pathname, headers });
    request.on("upgrade", (_response, socket, head) => {
      // The first message is the name of the pod: two bytes of frame, then text.
      const named = (data) => {
        const pod = data.subarray(2, 2 + data[1]).toString();
        done(`open, on pod ${pod}`, { pod, socket });
      };
      socket.on("error", () => {});
      if (head.length > 2) named(head);
      else socket.once("data", named);
    });
    request.on("response", (response) => {
      let body = "";
      response.on("data", (chunk) => {
        body += chunk;
      });
      response.on("end", () => done(`${response.statusCode} ${body.match(/"reason":"(\w+)"/)?.[1] ?? ""}`));
    });
    request.on("error", (error) => done(error.message));
  });
}
