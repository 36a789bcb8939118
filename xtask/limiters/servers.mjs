// Servers of Node.js with rate limiters from npm: node servers.mjs NAME:PORT:LIMIT:SECONDS...
// Each request is one line of standard output: NAME ARRIVAL STATUS PATH.
import http from 'node:http'

import Fastify from 'fastify'
import fastifyLimit from '@fastify/rate-limit'
import Hapi from '@hapi/hapi'
import hapiLimit from 'hapi-rate-limit'
import Koa from 'koa'
import koaLimit from 'koa-ratelimit'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { Hono } from 'hono'
import { getRequestListener } from '@hono/node-server'
import { rateLimiter as honoLimit } from 'hono-rate-limiter'
import { RateLimiterMemory } from 'rate-limiter-flexible'

const item = (name, path) => `${name} ${path}\n`.repeat(20)

const ofExpress = (options) => async (name, limit, seconds) => {
  const app = express()
  app.use(rateLimit({ windowMs: seconds * 1000, limit, ...options }))
  app.get('/item/:id', (request, response) => response.type('text').send(item(name, request.path)))
  return app
}

const KINDS = {
  'express-draft-8': ofExpress({ standardHeaders: 'draft-8', legacyHeaders: false }),
  'express-draft-7': ofExpress({ standardHeaders: 'draft-7', legacyHeaders: false }),
  'express-legacy': ofExpress({ standardHeaders: false, legacyHeaders: true }),
  'express-silent': ofExpress({ standardHeaders: false, legacyHeaders: false }),
  fastify: async (name, limit, seconds) => {
    let listener
    const app = Fastify({ serverFactory: (handler) => http.createServer((listener = handler)) })
    await app.register(fastifyLimit, { max: limit, timeWindow: seconds * 1000 })
    app.get('/item/:id', (request, reply) => reply.type('text/plain').send(item(name, request.url)))
    await app.ready()
    return listener
  },
  koa: async (name, limit, seconds) => {
    const app = new Koa()
    app.use(koaLimit({ driver: 'memory', db: new Map(), max: limit, duration: seconds * 1000 }))
    app.use((context) => {
      if (context.path.startsWith('/item/')) context.body = item(name, context.path)
    })
    return app.callback()
  },
  hapi: async (name, limit, seconds) => {
    const listener = http.createServer()
    const server = Hapi.server({ listener, autoListen: false })
    const userCache = { expiresIn: seconds * 1000 }
    const options = { userLimit: limit, userCache, pathLimit: false }
    await server.register({ plugin: hapiLimit, options })
    server.route({
      method: 'GET',
      path: '/item/{id}',
      handler: (request, h) => h.response(item(name, request.path)).type('text/plain'),
    })
    await server.start()
    return (request, response) => listener.emit('request', request, response)
  },
  hono: async (name, limit, seconds) => {
    const app = new Hono()
    app.use(honoLimit({ windowMs: seconds * 1000, limit, keyGenerator: () => 'all' }))
    app.get('/item/:id', (context) => context.text(item(name, context.req.path)))
    return getRequestListener(app.fetch)
  },
  // As its documentation has it: Retry-After with a fraction, X-RateLimit-Reset as a date.
  flexible: async (name, limit, seconds) => {
    const limiter = new RateLimiterMemory({ points: limit, duration: seconds })
    return (request, response) => {
      const answer = (status, result) => {
        response.writeHead(status, {
          'Content-Type': 'text/plain',
          'Retry-After': result.msBeforeNext / 1000,
          'X-RateLimit-Limit': limit,
          'X-RateLimit-Remaining': result.remainingPoints,
          'X-RateLimit-Reset': new Date(Date.now() + result.msBeforeNext),
        })
        response.end(item(name, request.url))
      }
      const found = request.url.startsWith('/item/') ? 200 : 404
      limiter.consume('all').then((result) => answer(found, result), (result) => answer(429, result))
    }
  },
}

for (const argument of process.argv.slice(2)) {
  const [name, port, limit, seconds] = argument.split(':')
  const kind = Object.keys(KINDS).find((kind) => name.startsWith(kind))
  const listener = await KINDS[kind](name, Number(limit), Number(seconds))
  const server = http.createServer((request, response) => {
    const arrival = (Date.now() / 1000).toFixed(3)
    const { url } = request
    response.on('close', () => console.log(name, arrival, response.statusCode, url))
    listener(request, response)
  })
  server.listen(Number(port), '127.0.0.1')
}
