import { Button } from "./button.tsx";
import { Copy } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";
import "./secret-shown.css";

/** A secret that the server shows once: only the button closes this dialog. */
export function SecretShown({
  title,
  secret,
  command,
  onClose,
}: {
  title: string;
  secret: string;
  command?: string;
  onClose: () => void;
}) {
  return (
    <Dialog
      title={title}
      onClose={onClose}
      onSubmit={onClose}
      footer={
        <Button kind="primary" type="submit">
          I have stored it
        </Button>
      }
    >
      <p>Copy it now: it is shown only once.</p>
      <Line text={secret} what="the secret" />
      {command && <Line text={command} what="the command" />}
    </Dialog>
  );
}

function Line({ text, what }: { text: string; what: string }) {
  return (
    <div class="secret-line">
      <code>{text}</code>
      <Copy text={text} what={what} />
    </div>
  );
}
