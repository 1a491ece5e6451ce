// Reads JSON lines {secret, headers, body_b64}; prints one JSON line of verdicts for each.
import readline from "node:readline";
import { Webhook as Standard } from "standardwebhooks";
import { Webhook as Svix } from "svix";

function verdict(Library, { secret, headers, body_b64 }) {
  try {
    new Library(secret).verify(Buffer.from(body_b64, "base64").toString("utf8"), headers);
    return "ok";
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  if (!line.trim()) continue;
  const delivery = JSON.parse(line);
  const verdicts = { standardwebhooks: verdict(Standard, delivery), svix: verdict(Svix, delivery) };
  process.stdout.write(JSON.stringify(verdicts) + "\n");
}
