/**
 * Opens WebSockets at once, by turns through the given addresses, and says what became of each. Those that are open stay so
 * until this is ended: `tsx clients.ts 10 ws://127.0.0.1:8081/ws/ ws://127.0.0.1:8082/ws/`
 */
import { WebSocket } from "ws";

const [count = "10", ...urls] = process.argv.slice(2);
let open = 0;

await Promise.all(Array.from({ length: Number(count) }, (_, i) => connect(i + 1, urls[i % urls.length] ?? "")));
console.log(`${open} of ${count} are open. Ctrl-C ends them.`);

function connect(number: number, url: string): Promise<void> {
  return new Promise((resolve) => {
    const say = (what: string) => {
      console.log(`${String(number).padStart(3)} ${new URL(url).host}  ${what}`);
      resolve();
    };
    const socket = new WebSocket(url);
    socket.on("message", (data) => {
      open++;
      say(`open, on ${data.toString()}`);
    });
    socket.on("unexpected-response", (_request, response) => {
      let body = "";
      response.on("data", (chunk) => (body += chunk));
      response.on("end", () => say(`${response.statusCode} ${(JSON.parse(body) as { reason: string }).reason}`));
    });
    socket.on("error", (error) => say(error.message));
    socket.on("close", (code) => console.log(`${String(number).padStart(3)} closed with ${code}`));
  });
}
