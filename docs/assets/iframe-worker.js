// Search in a page that was opened from a disk: browsers start no Worker for file://, so the
// search runs in a hidden frame instead.  The theme asks for `IFrameWorker` by this name.
(() => {
  if (location.protocol !== "file:") return
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = frame.contentDocument.createElement("script")
      script.src = url
      this.ready = new Promise((done) => script.addEventListener("load", done))
      frame.contentDocument.body.appendChild(script)
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
  window.Worker = window.IFrameWorker
})()
