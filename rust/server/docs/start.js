"use strict";

addEventListener("load", () => {
  SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#docs",
    deepLinking: true,
    defaultModelRendering: "model",
    defaultModelsExpandDepth: 0,
    validatorUrl: null,
  });
});
