/** Two WebSocket pods on 127.0.0.1:9101 and :9102: each greets with its name and says back what it hears; HTTP, too. */
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

for (const port of [9101, 9102]) {
  const server = createServer((_request, response) => response.end(`hello from pod ${port}\n`));
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => {
    console.log(`pod ${port}: ${sockets.clients.size} connections`);
    socket.send(`pod ${port}`);
    socket.on("message", (data) => socket.send(data.toString()));
    socket.on("close", () => console.log(`pod ${port}: ${sockets.clients.size} connections`));
  });
  server.listen(port, "127.0.0.1");
}
