"""The bank as a web service on asyncio, with FastAPI: uvicorn examples.service:app

Each node is a process, with its configuration in the environment (docs/reference/library.md#configuration).
The bootstrap servers are the voters, in the order of their ids from 1 on.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from fastapi import FastAPI, HTTPException

from examples.bank import SERDE, Bank, Command, Deposit, NotEnoughMoney, Transfer
from kraft_trio import NodeConfig, OutcomeUnknownError, aio

CLUSTER_ID = "ySvf4iIwQ5a13rqtClr5pg"
TIMEOUT_S = 5
bank = Bank()


@asynccontextmanager
async def running_node(app: FastAPI) -> AsyncIterator[None]:
    config = NodeConfig.from_environment()
    voters = dict(enumerate(config.quorum_bootstrap_servers, start=1))
    await aio.ensure_formatted(config, CLUSTER_ID, voters)
    try:
        async with aio.open_node(config, serde=SERDE, state_machine=bank) as app.state.node:
            yield
    except Exception:  # a fault of the node, without which uvicorn would continue
        asyncio.get_running_loop().call_soon(sys.exit, 1)
        raise


app = FastAPI(lifespan=running_node)


def node() -> aio.Node[Command, int]:
    running: aio.Node[Command, int] = app.state.node
    return running


async def execute(command: Command, request_id: UUID) -> int:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await node().execute(command, request_id)
    except NotEnoughMoney as error:
        raise HTTPException(409, f"not enough money: {error}") from error
    except (TimeoutError, OutcomeUnknownError) as error:
        raise HTTPException(503, "it may have happened or not: repeat the request, at any node") from error
    except ValueError as error:
        raise HTTPException(422, str(error)) from error


@app.post("/request-ids")
async def make_request_id() -> UUID:
    """Return an id for one of the requests below, which takes effect once, however often it is sent."""
    return node().new_request_id()


@app.put("/deposits/{request_id}")
async def deposit(request_id: UUID, account: str, amount: int) -> int:
    return await execute(Deposit(account, amount), request_id)


@app.put("/transfers/{request_id}")
async def transfer(request_id: UUID, payer: str, payee: str, amount: int) -> int:
    return await execute(Transfer(payer, payee, amount), request_id)


@app.get("/balances/{account}")
async def balance(account: str) -> int:
    """Return the balance with every deposit and transfer that was acknowledged before, by any node."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await node().read_barrier()
    except TimeoutError as error:
        raise HTTPException(503, "no leader has a majority at present") from error
    return bank.answer(account)
