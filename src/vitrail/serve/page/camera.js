// A picture from the camera, as a file; nothing if the visitor changes their mind.

const $ = (id) => document.getElementById(id);

export const available = () => Boolean(navigator.mediaDevices?.getUserMedia);

export const takePicture = async () => {
  const video = $("video");
  const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" }, audio: false });
  video.srcObject = stream;
  await video.play();
  $("shutter").showModal();
  try {
    return await chosen(video);
  } finally {
    $("shutter").close();
    stream.getTracks().forEach((track) => track.stop());
    video.srcObject = null;
  }
};

const chosen = (video) => new Promise((resolve) => {
  $("take").onclick = () => frame(video).then(resolve);
  $("leave").onclick = () => resolve(null);
  $("shutter").onclose = () => resolve(null);
});

const frame = async (video) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: video.videoWidth, height: video.videoHeight });
  canvas.getContext("2d").drawImage(video, 0, 0);
  const blob = await new Promise((resolve) => { canvas.toBlob(resolve, "image/jpeg", 0.92); });
  return new File([blob], "camera.jpg", { type: "image/jpeg" });
};
