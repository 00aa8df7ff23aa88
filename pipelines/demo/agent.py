"""A smart-home assistant made of rules: an agent to evaluate without a model, a key or a network.

It understands requests in English, German and Portuguese and drives a simulated home through tools. It is imperfect on
purpose, in ways that agents are:

- it serves only the first of several rooms (recall);
- it looks at a lock before it turns it (an extra call: precision, exact match);
- it starts the music before it sets the volume (order);
- it takes Fahrenheit for Celsius unless the unit is named (a wrong argument);
- it knows no word for dimming in German and none for "warmer" in Portuguese;
- it asks back where it does not understand (no call at all);
- it breaks down where the garage is concerned, whose controller is offline (a failed call).
"""

from __future__ import annotations

import asyncio
import re
import zlib
from typing import Any

ROOMS = {
    "kitchen": r"kitchen|küche|cozinha",
    "living_room": r"living room|lounge|wohnzimmer|sala",
    "bedroom": r"bedroom|schlafzimmer|quarto",
    "office": r"office|study|büro|escritório",
    "hallway": r"hallway|hall|flur|corredor",
    "bathroom": r"bathroom|bad|banheiro",
    "garage": r"garage|garagem",
}
DOORS = {"front_door": r"front|haustür|frente", "back_door": r"back|hintertür|fundos", "garage_door": ROOMS["garage"]}
PLAYLISTS = {"jazz": "jazz", "news": "news|nachrichten|notícias", "rain": "rain|regen|chuva", "samba": "samba"}
PERIODS = {"today": "today|heute|hoje", "week": "week|woche|semana"}
TOPICS = {
    "security": r"lock|locked|unlock|door|tür|haustür|hintertür|porta|tranque|destranque|trancada",
    "climate": r"degrees|warmer|colder|warm|temperature|heating|heat|thermostat|grad|wärmer|kälter|heizung|temperatur"
    r"|graus|temperatura|aquecimento|quente|frio",
    "blinds": r"blinds?|shutters?|rollläden|rollo|persianas?",
    "media": r"play|spiel|spiele|toque|toca|ponha",
    "cleaning": r"vacuum|hoover|clean|saug|sauge|staubsauger|aspire|aspirador|limpe",
    "energy": r"energy|electricity|power|kwh|strom|energie|energia|luz gastamos",
    "lights": r"lights?|lamps?|licht|lampe|luz|luzes|lâmpada",
}
LANGUAGES = {
    "de": r"das|die|den|der|im|ist|bitte|mach|mache|schalte|wie|auf|sauge|spiele|stell|stelle|schließ|schließe|öffne",
    "pt": r"luz|luzes|por favor|acenda|apague|toque|coloque|feche|abra|tranque|destranque|aspire|quanta|qual|está|deixe"
    r"|diminua|reduza|desligue|quero|mande|obrigado",
}
LABELS = {
    "en": ["kitchen", "living room", "bedroom", "office", "hallway", "bathroom", "garage", "front door", "back door"],
    "de": ["Küche", "Wohnzimmer", "Schlafzimmer", "Büro", "Flur", "Bad", "Garage", "Haustür", "Hintertür"],
    "pt": ["cozinha", "sala", "quarto", "escritório", "corredor", "banheiro", "garagem", "porta da frente"]
    + ["porta dos fundos"],
}
PHRASES = {
    "on": ("light on", "Licht an", "luz acesa"),
    "off": ("light off", "Licht aus", "luz apagada"),
    "dimmed": ("light at {} percent", "Licht auf {} Prozent", "luz em {} por cento"),
    "blinds": ("blinds at {} percent", "Rollläden auf {} Prozent", "persianas em {} por cento"),
    "heating": ("heating set to {} degrees", "Heizung auf {} Grad", "aquecimento em {} graus"),
    "degrees": ("it is {} degrees", "es sind {} Grad", "está em {} graus"),
    "locked": ("locked", "verriegelt", "trancada"),
    "unlocked": ("unlocked", "entriegelt", "destrancada"),
    "playing": ("playing {}", "spielt {}", "tocando {}"),
    "vacuum": ("the vacuum is on its way", "der Staubsauger ist unterwegs", "o aspirador está a caminho"),
    "energy": ("{} kWh", "{} kWh", "{} kWh"),
    "unclear": ("Sorry, what should I do?", "Wie bitte?", "Desculpe, o que devo fazer?"),
}


class DeviceOffline(RuntimeError):
    """A device of the home does not answer."""


class Home:
    """The simulated home: its tools, and the calls made of them.

    Attributes:
        calls: The trajectory so far, in the order of the calls.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._degrees = {"kitchen": 21, "living_room": 20, "bedroom": 18, "office": 19, "hallway": 17, "bathroom": 22}

    def use(self, tool_name: str, **tool_input: Any) -> Any:
        """Calls a tool and returns what it says.

        Raises:
            DeviceOffline: The call concerns the garage.
        """
        for value in tool_input.values():
            if value in ("garage", "garage_door"):
                raise DeviceOffline(f"{value!r} does not answer {tool_name!r}")
        self.calls.append({"tool_name": tool_name, "tool_input": tool_input})
        if tool_name == "get_temperature":
            return self._degrees[tool_input["room"]]
        return {"today": 8, "week": 61}[tool_input["period"]] if tool_name == "get_energy" else None


async def answer(prompt: str) -> dict[str, Any]:
    """Answers one request, within a few milliseconds, and says how many: measured, two runs would differ in that.

    Args:
        prompt: The request, in English, German or Portuguese.

    Returns:
        `response`, `predicted_trajectory` and `latency_in_seconds`.

    Raises:
        DeviceOffline: The request concerns the garage.
    """
    seconds = 0.002 + zlib.crc32(prompt.encode()) % 8 / 1000
    await asyncio.sleep(seconds)
    home, text = Home(), prompt.lower()
    return {"response": _act(home, text), "predicted_trajectory": home.calls, "latency_in_seconds": seconds}


def _act(home: Home, text: str) -> str:
    topic, language = _first(TOPICS, text), _first(LANGUAGES, text) or "en"
    rooms = list(ROOMS)
    labels = dict(zip([*rooms, "front_door", "back_door"], LABELS[language], strict=True))
    done = _RULES[topic](home, text) if topic else None
    if done is None:
        return _say("unclear", language)
    place, phrase, *values = done
    said = _say(phrase, language, *values)
    return f"{labels[place].capitalize() if language != 'de' else labels[place]}: {said}." if place else f"{said}."


def _lights(home: Home, text: str) -> tuple[Any, ...] | None:
    room = _first(ROOMS, text)
    if room is None:
        return None
    percent = re.search(r"(?:dim\b|reduza|diminua)\D* (\d+)", text)
    if percent:
        level = int(percent[1])
        home.use("set_light", room=room, state="on", brightness=level)
        return room, "dimmed", level
    state = "off" if re.search(r"\b(off|out|aus|apague|desligue)\b", text) else "on"
    home.use("set_light", room=room, state=state)
    return room, state


def _climate(home: Home, text: str) -> tuple[Any, ...] | None:
    room, number = _first(ROOMS, text), _number(text)
    if room is None:
        return None
    step = 1 if re.search(r"warmer|wärmer", text) else -1 if re.search(r"colder|cooler|kälter", text) else 0
    if step:
        target = home.use("get_temperature", room=room) + step * (number or 1)
    elif number is None:
        return room, "degrees", home.use("get_temperature", room=room)
    else:
        target = round((number - 32) / 1.8) if "fahrenheit" in text else number
    home.use("set_temperature", room=room, celsius=target)
    return room, "heating", target


def _security(home: Home, text: str) -> tuple[Any, ...] | None:
    door = _first(DOORS, text)
    if door is None:
        return None
    home.use("get_lock", door=door)
    if re.search(r"\?", text):
        return door, "locked"
    locked = not re.search(r"\bunlock\b|entriegel|destranque", text)
    home.use("set_lock", door=door, locked=locked)
    return door, "locked" if locked else "unlocked"


def _blinds(home: Home, text: str) -> tuple[Any, ...] | None:
    room, number = _first(ROOMS, text), _number(text)
    if room is None:
        return None
    if number is None:
        number = 0 if re.search(r"close|shut\b|schließ|feche", text) else 100
    home.use("set_blinds", room=room, position=number)
    return room, "blinds", number


def _media(home: Home, text: str) -> tuple[Any, ...] | None:
    room, playlist, volume = _first(ROOMS, text), _first(PLAYLISTS, text), _number(text)
    if room is None or playlist is None:
        return None
    home.use("play_media", room=room, playlist=playlist)
    if volume is not None:
        home.use("set_volume", room=room, percent=volume)
    return room, "playing", playlist


def _cleaning(home: Home, text: str) -> tuple[Any, ...] | None:
    room = _first(ROOMS, text)
    if room is None:
        return None
    home.use("start_vacuum", room=room)
    return room, "vacuum"


def _energy(home: Home, text: str) -> tuple[Any, ...] | None:
    period = _first(PERIODS, text)
    return None if period is None else ("", "energy", home.use("get_energy", period=period))


_RULES = {
    "security": _security,
    "climate": _climate,
    "blinds": _blinds,
    "media": _media,
    "cleaning": _cleaning,
    "energy": _energy,
    "lights": _lights,
}


def _first(words: dict[str, str], text: str) -> str | None:
    """The key whose words stand first in the text."""
    found = {key: match.start() for key, w in words.items() if (match := re.search(rf"\b(?:{w})\b", text))}
    return min(found, key=lambda key: found[key]) if found else None


def _number(text: str) -> int | None:
    match = re.search(r"\d+", text)
    return int(match[0]) if match else None


def _say(phrase: str, language: str, *values: Any) -> str:
    return PHRASES[phrase][("en", "de", "pt").index(language)].format(*values)
