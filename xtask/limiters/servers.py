"""Servers of Python with rate limiters from PyPI: servers.py NAME:PORT:LIMIT:SECONDS...

Each request is one line of standard output: NAME ARRIVAL STATUS PATH.
"""
import logging
import sys
import threading
import time

import django
import uvicorn
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from django_ratelimit.decorators import ratelimit
from flask import Flask, Response
from flask_limiter import Limiter
from slowapi import Limiter as SlowLimiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from werkzeug.serving import WSGIRequestHandler, make_server

logging.disable(logging.CRITICAL)


def note(name, arrival, status, target):
    print(f"{name} {arrival:.3f} {status} {target}\n", end="", flush=True)


def item(name, target):
    return f"{name} {target}\n" * 20


def flask(name, limits, strategy, headers):
    app = Flask(name)
    Limiter(lambda: "all", app=app, default_limits=[limits], strategy=strategy,
            headers_enabled=headers, storage_uri="memory://")

    @app.get("/item/<int:number>")
    def one(number):
        return Response(item(name, f"/item/{number}"), content_type="text/plain")

    return app


def of_django(name, rate):
    """There is one Django application in a process."""
    @ratelimit(key=lambda group, request: "all", rate=rate, block=False)
    def one(request, number):
        if request.limited:
            return HttpResponse("too many requests", status=429)
        return HttpResponse(item(name, f"/item/{number}"), content_type="text/plain")

    settings.configure(
        ALLOWED_HOSTS=["*"], SECRET_KEY="not secret", ROOT_URLCONF=(path("item/<int:number>", one),),
        CACHES={"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
        SILENCED_SYSTEM_CHECKS=["django_ratelimit.E003", "django_ratelimit.W001"])
    django.setup()
    return get_wsgi_application()


def slowapi(name, limits):
    limiter = SlowLimiter(key_func=lambda: "all", key_style="endpoint", headers_enabled=True)

    @limiter.limit(limits)
    async def one(request):
        return PlainTextResponse(item(name, request.url.path))

    app = Starlette(routes=[Route("/item/{number}", one)])
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)
    return app


class Handler(WSGIRequestHandler):
    """Keeps connections open and notes every response."""
    protocol_version = "HTTP/1.1"

    def run_wsgi(self):
        self.arrival = time.time()
        super().run_wsgi()

    def log_request(self, code="-", size="-"):
        note(self.server.name, self.arrival, int(code), self.path)

    def log(self, *_):
        pass


def serve_wsgi(name, port, app):
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=Handler)
    server.name = name
    server.serve_forever()


def noting(name, app):
    """Notes every response of an ASGI application."""
    async def noted(scope, receive, send):
        arrival = time.time()

        async def noting_send(message):
            if message["type"] == "http.response.start":
                note(name, arrival, message["status"], scope["path"])
            await send(message)

        await app(scope, receive, noting_send)

    return noted


def start(name, port, limit, seconds):
    limits = f"{limit} per {seconds} second"
    strategy = {"moving": "moving-window", "counter": "sliding-window-counter"}
    if name.startswith("slowapi"):
        uvicorn.run(noting(name, slowapi(name, limits)), host="127.0.0.1", port=port, lifespan="off", log_config=None)
    elif name.startswith("django"):
        serve_wsgi(name, port, of_django(name, f"{limit}/{seconds}s"))
    else:
        if name.startswith("flask-two"):
            limits += "; 40 per 60 second"
        kind = strategy.get(name.split("-")[1], "fixed-window")
        serve_wsgi(name, port, flask(name, limits, kind, not name.endswith("silent")))


for argument in sys.argv[1:]:
    name, port, limit, seconds = argument.split(":")
    threading.Thread(target=start, args=(name, int(port), int(limit), int(seconds))).start()
