// Live: the server says when a run has written something; then the document is fetched again.

class Live {
  constructor() {
    this.isBusy = false;
    this.isLate = false; // something changed while the document was on its way
    this.badge = make("span", { class: "quiet", role: "status", text: "live" });
    document.querySelector(".toolbar .spring").after(make("a", { href: "./", text: "All runs" }), this.badge);
    const source = new EventSource(`events${location.search}`);
    source.addEventListener("changed", () => this.fetch());
    source.addEventListener("ready", () => { this.badge.textContent = "live"; });
    source.addEventListener("error", () => { this.badge.textContent = "connection lost"; });
  }

  async fetch() {
    if (this.isBusy) {
      this.isLate = true;
      return;
    }
    this.isBusy = true;
    try {
      const answer = await fetch(`document${location.search}`);
      if (answer.ok) page.update(await answer.json());
    } finally {
      this.isBusy = false;
    }
    if (this.isLate) {
      this.isLate = false;
      setTimeout(() => this.fetch(), 500);
    }
  }
}

const live = new Live();
